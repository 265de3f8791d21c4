// Images: dropped, pasted, chosen or drawn; a row of weights is laid over the picture, and boxes stand on it.

import { beside, listForm } from '../beside.js';
import { button, element, plural } from '../dom.js';
import { drawingPad } from './drawing.js';
import { pictureOfLook, pictureOf } from './overlay.js';
import { patchesFor, pictureView, stillPicture } from './picture.js';

const LARGEST_SIDE = 1024; // a larger picture is made smaller before it is sent
const SHORT = 6000; // letters of a picture that still goes into an address
const KEPT_PREVIEWS = 8;

/** @type {Map<string, string>} */
const previews = new Map(); // addresses in this browser of what was uploaded, by their ids

/** What the browser shows a picture by. */
const shownBy = (/** @type {Picture} */ picture) => picture.png ?? previews.get(picture.upload ?? '') ?? '';

/** @param {string} id @param {Blob} blob */
function keepPreview(id, blob) {
  if (previews.has(id)) return;
  previews.set(id, URL.createObjectURL(blob));
  for (const [old, address] of previews) {
    if (previews.size <= KEPT_PREVIEWS) break;
    URL.revokeObjectURL(address);
    previews.delete(old);
  }
}

/** A picture as a PNG of a size that the server takes. @param {Blob} file */
async function asPng(file) {
  const bitmap = await createImageBitmap(file);
  const shrink = Math.min(1, LARGEST_SIDE / Math.max(bitmap.width, bitmap.height));
  const canvas = new OffscreenCanvas(Math.round(bitmap.width * shrink), Math.round(bitmap.height * shrink));
  canvas.getContext('2d')?.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  return { blob: await canvas.convertToBlob({ type: 'image/png' }), width: canvas.width, height: canvas.height };
}

/** @param {Blob} blob @returns {Promise<string>} */
const dataAddress = (blob) =>
  new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.addEventListener('load', () => resolve(String(reader.result)));
    reader.addEventListener('error', () => reject(reader.error));
    reader.readAsDataURL(blob);
  });

/** A small one stands in the request, and so in the address of the view; a larger one is uploaded as it is.
    @param {Blob} file @param {Source} source @returns {Promise<Picture>} */
export async function pictureFrom(file, source) {
  const { blob, width, height } = await asPng(file);
  if (blob.size * (4 / 3) < SHORT - 100) return { kind: 'image', png: await dataAddress(blob) };
  const { id } = await source.upload(blob);
  keepPreview(id, blob);
  return { kind: 'image', upload: id, width, height };
}

/** The line for whatever has a picture in it. @param {ControlFacts} facts @param {(picture: Picture) => Input} around */
export function pictureControl({ give, take }, around) {
  const preview = element('img', { class: 'preview', alt: 'The input image' });
  const file = element('input', {
    type: 'file',
    accept: 'image/*',
    class: 'unseen',
    tabindex: -1,
    'aria-label': 'Choose an image',
    onChange: () => {
      const chosen = file.files?.[0];
      if (chosen) take(chosen);
      file.value = ''; // the same file may be chosen again
    },
  });
  const pad = drawingPad((png) => give(around({ kind: 'image', png })));
  const line = element(
    'div',
    { class: 'ask-picture' },
    preview,
    element('span', { class: 'ask-drop' }, 'Drop or paste an image here'),
    file,
    button('plain', 'Choose…', () => file.click()),
    button('plain', 'Draw', () => pad.open()),
  );
  return {
    nodes: [line, pad.dialog],
    show(/** @type {Input} */ input) {
      const picture = pictureOf(input);
      if (picture) preview.src = shownBy(picture);
    },
    send() {},
  };
}

/** @param {Input} input */
export function pictureAddress(input) {
  const png = pictureOf(input)?.png ?? '';
  return png && png.length < SHORT ? { png } : null;
}

/** The picture that an address holds, if it is one. @param {Record<string, string>} given @returns {Picture | null} */
export const pictureIn = ({ png }) => (png?.startsWith('data:image/') ? { kind: 'image', png } : null);

/** An empty one, to begin with. @returns {Picture} */
export function blankPicture() {
  const canvas = element('canvas', { width: 28, height: 28 });
  return { kind: 'image', png: canvas.toDataURL('image/png') };
}

export const isImageFile = (/** @type {File} */ file) => file.type.startsWith('image/');

export const NO_PICTURE = 'The browser cannot read this file as an image. Supported formats: PNG, JPEG, GIF and WebP.';

/** @param {Answer} answer */
function countedBoxes(answer) {
  const counts = new Map();
  for (const { label } of answer.boxes ?? []) counts.set(label, (counts.get(label) ?? 0) + 1);
  return element('p', {}, [...counts].map(([label, count]) => plural(count, label)).join(', ') || 'nothing');
}

/** @type {Medium} */
export const imageMedium = {
  kinds: ['image'],
  takes: { image: blankPicture },
  describe: () => '',
  address: pictureAddress,
  restore: (example, given) => pictureIn(given) ?? example,
  python: () => '"picture.png"',
  accepts: isImageFile,
  fromFile: pictureFrom,
  refused: NO_PICTURE,
  control: (facts) => pictureControl(facts, (picture) => picture),
  axes: {
    image: {
      one: 'patch',
      many: 'patches',
      lays: (look, axis) => axis.grid?.length === 2 && pictureOfLook(look) !== null,
      strip: pictureView,
      ticks: patchesFor,
      still: stillPicture,
    },
  },
  answers: {
    labels: { title: 'Predicted class', ...listForm((answer) => answer.labels ?? []) },
    boxes: {
      title: 'Detected objects',
      speaker: 'queries',
      nothing: (answer) => !answer.boxes?.length,
      body: (answer, before) =>
        before ? beside(countedBoxes(before), countedBoxes(answer)) : [countedBoxes(answer)],
    },
  },
};
