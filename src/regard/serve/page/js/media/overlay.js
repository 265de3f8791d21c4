// A picture, and numbers laid over it: one for each of its patches. A head's row and what an analysis found look alike.

import { patchOf } from '../axes.js';
import { button, clamp, drawingOn, element, percent } from '../dom.js';

const LONGEST = 340; // pixels on the screen
/** The picture of an input, if it has one. @param {Input} input @returns {Picture | null} */
export const pictureOf = (input) => input.image ?? (input.png || input.upload ? input : null);

/** The picture that the maps of a look are of: the one that was given, or the one that was drawn.
    @param {LookLike} look @returns {Picture | null} */
export function pictureOfLook({ document }) {
  const answer = /** @type {Input | null} */ (document.answer ?? null);
  return pictureOf(document.input) ?? (answer?.png ? answer : null);
}

/** @type {Map<string, HTMLImageElement>} */
const loaded = new Map(); // address -> Image; a few pictures at most

/** An image, once it is decoded; `then` is called when it is, if it was not.
    @param {string} address @param {() => void} then */
export function imageOf(address, then) {
  const known = loaded.get(address);
  const image = known ?? new Image();
  if (!known) {
    if (loaded.size > 12) loaded.clear();
    loaded.set(address, image);
    image.src = address;
  }
  if (!image.complete && then) image.addEventListener('load', () => then(), { once: true });
  return image.complete && image.naturalWidth ? image : null;
}

/** The numbers of a row on what has a place in the picture. @param {Numbers} row @param {Gridded} axis */
const placedOf = (row, axis) => (row instanceof Float32Array ? row.subarray(axis.special) : row.slice(axis.special));

/** The row as a small picture of its grid.
    @param {Numbers} part @param {Gridded} axis @param {Over} over @param {Ramp} ramp */
function overlayOf(part, axis, over, ramp) {
  const [tall, wide] = axis.grid ?? [1, 1];
  const top = over.strongest(part) || 1;
  const image = new ImageData(wide, tall);
  const words = new Uint32Array(image.data.buffer);
  part.forEach((value, index) => {
    const alpha = Math.round(255 * over.alpha(value, top));
    words[index] = (ramp.words[Math.round(255 * over.place(value, top))] & 0xffffff) | (alpha << 24);
  });
  const canvas = new OffscreenCanvas(wide, tall);
  canvas.getContext('2d')?.putImageData(image, 0, 0);
  return canvas;
}

/** @param {CanvasRenderingContext2D} context @param {Box[]} boxes @param {number} scale @param {Colours} colours */
function boxesOn(context, boxes, scale, colours) {
  const hues = [colours.query, colours.key, colours.second, colours.accent];
  const names = [...new Set(boxes.map((one) => one.label))];
  context.font = `600 12px ${colours.font}`;
  for (const { label, score, box } of boxes) {
    const [x, y, right, bottom] = box.map((value) => value * scale);
    const colour = hues[names.indexOf(label) % hues.length];
    const text = `${label} ${percent(score, 0)}`;
    context.strokeStyle = colour;
    context.lineWidth = 2;
    context.strokeRect(x, y, right - x, bottom - y);
    context.fillStyle = colour;
    context.fillRect(x - 1, Math.max(0, y - 16), context.measureText(text).width + 8, 16);
    context.fillStyle = colours.surface;
    context.fillText(text, x + 3, Math.max(12, y - 4));
  }
}

/** The picture of a look, cut as this axis is, with the switch of its overlay and what its strongest light means.
    draw(row, rings): rings are [index, colour, thickness]; without a row the picture is plain.
    @param {Store} store @param {LookLike} look @param {Gridded} axis @param {Over} over */
export function pane(store, look, axis, over) {
  const { width = 1, height = 1, png = '' } = pictureOfLook(look) ?? {};
  const [down, across] = axis.grid ?? [1, 1];
  const longer = Math.max(width, height);
  const shown = Math.max(1, Math.min(LONGEST, longer * 40) / longer);
  const [wide, tall] = [Math.round(width * shown), Math.round(height * shown)];
  const cell = [tall / down, wide / across];
  const style = `--wide: ${wide}px; aspect-ratio: ${wide} / ${tall}`;
  const canvas = element('canvas', { class: 'picture', style });
  const lay = button('toggle', 'overlay', () => store.set({ overlay: !store.state.overlay }));
  const [bar, told] = [element('span', { class: 'legend-bar' }), element('span')];
  const legend = element('p', { class: 'hint picture-legend' }, bar, told);

  /** @param {CanvasRenderingContext2D} context @param {Ring} given */
  function ring(context, [index, colour, thick]) {
    if (index === null || index < axis.special) return;
    const [row, column] = patchOf(axis, index);
    context.lineWidth = thick;
    context.strokeStyle = colour;
    context.strokeRect(column * cell[1] + thick / 2, row * cell[0] + thick / 2, cell[1] - thick, cell[0] - thick);
  }

  /** @param {Numbers | null} row @param {Ring[]} rings */
  function draw(row, rings) {
    const { colours, overlay } = store.state;
    const density = globalThis.devicePixelRatio || 1;
    canvas.width = wide * density;
    canvas.height = tall * density;
    const context = drawingOn(canvas);
    context.setTransform(density, 0, 0, density, 0, 0);
    const image = imageOf(png, () => draw(row, rings));
    context.imageSmoothingEnabled = width > 96; // a small picture is its pixels
    if (image) context.drawImage(image, 0, 0, wide, tall);
    const part = row ? placedOf(row, axis) : [];
    if (row && overlay) {
      context.imageSmoothingEnabled = true;
      context.imageSmoothingQuality = 'high';
      context.drawImage(overlayOf(part, axis, over, colours[over.ramp]), 0, 0, wide, tall);
    }
    const { answer } = look.document;
    if (answer.kind === 'boxes') boxesOn(context, answer.boxes ?? [], shown, colours);
    for (const one of rings) ring(context, one);
    lay.setAttribute('aria-pressed', String(overlay));
    legend.hidden = !part.length || !overlay;
    bar.style.background = `linear-gradient(to right, ${colours[over.ramp].gradient()})`;
    told.textContent = part.length ? over.told(over.strongest(part), over.write) : '';
  }

  /** The position under the pointer. @param {MouseEvent} event */
  function at(event) {
    const bounds = canvas.getBoundingClientRect();
    /** @param {number} part @param {number} count */
    const inside = (part, count) => clamp(Math.floor(part * count), 0, count - 1);
    const row = inside((event.clientY - bounds.top) / bounds.height, down);
    const column = inside((event.clientX - bounds.left) / bounds.width, across);
    return axis.special + row * across + column;
  }

  return { canvas, lay, legend, draw, at };
}
