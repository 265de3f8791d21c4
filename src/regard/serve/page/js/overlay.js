// A picture, and numbers laid over it: one for each of its patches. A head's row and what an analysis found look alike.

import { patchOf, pictureOf } from './axes.js';
import { button, clamp, element, furthest, largest, percent, signed } from './dom.js';

const LONGEST = 340; // pixels on the screen
const loaded = new Map(); // address -> Image; a few pictures at most

/** An image, once it is decoded; `then` is called when it is, if it was not. */
export function imageOf(address, then) {
  if (!loaded.has(address)) {
    if (loaded.size > 12) loaded.clear();
    const image = new Image();
    loaded.set(address, image);
    image.addEventListener('load', () => then?.());
    image.src = address;
  }
  const image = loaded.get(address);
  if (!image.complete && then) image.addEventListener('load', () => then(), { once: true });
  return image.complete && image.naturalWidth ? image : null;
}

const light = {
  ramp: 'overlay',
  strongest: (part) => part[largest(part)],
  place: (value, top) => Math.max(0, value) / top,
  alpha: (value, top) => 0.3 + (0.55 * Math.max(0, value)) / top,
  told: (top, write) => `brightest: ${write(top)}`,
};

/** How numbers become light: each row is stretched to its own strongest. What has a sign is clear where it is nothing. */
export const SHARES = { ...light, word: 'receives', write: (value) => percent(value) };
export const INFLUENCES = { ...light, word: 'influence', write: (value) => value.toPrecision(3) };
export const SIGNED = {
  ramp: 'signs',
  word: 'weight',
  strongest: (part) => furthest(part),
  place: (value, top) => (value / top + 1) / 2,
  alpha: (value, top) => 0.1 + (0.8 * Math.abs(value)) / top,
  told: (top, write) => `${write(-top)} to ${write(top)}`,
  write: (value) => signed(value, Math.abs(value) < 0.01 ? 5 : 3),
};

/** By the kind of a map. */
export const OVERS = { weights: SHARES, influence: INFLUENCES, signed: SIGNED };

/** The numbers of a row on what has a place in the picture. */
const placedOf = (row, axis) => (row.subarray ? row.subarray(axis.special) : row.slice(axis.special));

/** The row as a small picture of its grid. */
function overlayOf(part, axis, over, ramp) {
  const [tall, wide] = axis.grid;
  const top = over.strongest(part) || 1;
  const image = new ImageData(wide, tall);
  const words = new Uint32Array(image.data.buffer);
  part.forEach((value, index) => {
    const alpha = Math.round(255 * over.alpha(value, top));
    words[index] = (ramp.words[Math.round(255 * over.place(value, top))] & 0xffffff) | (alpha << 24);
  });
  const canvas = new OffscreenCanvas(wide, tall);
  canvas.getContext('2d').putImageData(image, 0, 0);
  return canvas;
}

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
    draw(row, rings): rings are [index, colour, thickness]; without a row the picture is plain. */
export function pane(store, look, axis, over) {
  const picture = pictureOf(look.document.input);
  const longer = Math.max(picture.width, picture.height);
  const shown = Math.max(1, Math.min(LONGEST, longer * 40) / longer);
  const [wide, tall] = [Math.round(picture.width * shown), Math.round(picture.height * shown)];
  const cell = [tall / axis.grid[0], wide / axis.grid[1]];
  const style = `--wide: ${wide}px; aspect-ratio: ${wide} / ${tall}`;
  const canvas = element('canvas', { class: 'picture', style });
  const lay = button('toggle', 'overlay', () => store.set({ overlay: !store.state.overlay }));
  const [bar, told] = [element('span', { class: 'legend-bar' }), element('span')];
  const legend = element('p', { class: 'hint picture-legend' }, bar, told);

  function ring(context, [index, colour, thick]) {
    if (index === null || index < axis.special) return;
    const [row, column] = patchOf(axis, index);
    context.lineWidth = thick;
    context.strokeStyle = colour;
    context.strokeRect(column * cell[1] + thick / 2, row * cell[0] + thick / 2, cell[1] - thick, cell[0] - thick);
  }

  function draw(row, rings) {
    const { colours, overlay } = store.state;
    const density = globalThis.devicePixelRatio || 1;
    canvas.width = wide * density;
    canvas.height = tall * density;
    const context = canvas.getContext('2d');
    context.setTransform(density, 0, 0, density, 0, 0);
    const image = imageOf(picture.png, () => draw(row, rings));
    context.imageSmoothingEnabled = picture.width > 96; // a small picture is its pixels
    if (image) context.drawImage(image, 0, 0, wide, tall);
    const part = row ? placedOf(row, axis) : [];
    if (row && overlay) {
      context.imageSmoothingEnabled = true;
      context.imageSmoothingQuality = 'high';
      context.drawImage(overlayOf(part, axis, over, colours[over.ramp]), 0, 0, wide, tall);
    }
    const { answer } = look.document;
    if (answer.kind === 'boxes') boxesOn(context, answer.boxes, shown, colours);
    for (const one of rings) ring(context, one);
    lay.setAttribute('aria-pressed', overlay);
    legend.hidden = !part.length || !overlay;
    bar.style.background = `linear-gradient(to right, ${colours[over.ramp].gradient()})`;
    told.textContent = part.length ? over.told(over.strongest(part), over.write) : '';
  }

  /** The position under the pointer. */
  function at(event) {
    const bounds = canvas.getBoundingClientRect();
    const inside = (part, count) => clamp(Math.floor(part * count), 0, count - 1);
    const row = inside((event.clientY - bounds.top) / bounds.height, axis.grid[0]);
    const column = inside((event.clientX - bounds.left) / bounds.width, axis.grid[1]);
    return axis.special + row * axis.grid[1] + column;
  }

  return { canvas, lay, legend, draw, at };
}
