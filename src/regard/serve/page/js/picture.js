// The picture, with the row of the chosen query laid over it; a click on a patch chooses the query or the key.

import { labelOf, patchOf, pictureOf, wordsFor } from './axes.js';
import { button, clamp, element, largest, percent } from './dom.js';
import { hoverToken } from './store.js';

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

/** The part of the picture that a position stands for, as a function for the labels of a map. */
export function patchesFor(look, axis, then) {
  const picture = pictureOf(look.document.input);
  const image = picture && axis.grid?.length === 2 && imageOf(picture.png, then);
  if (!image) return undefined;
  const [height, width] = [image.naturalHeight / axis.grid[0], image.naturalWidth / axis.grid[1]];
  return (index) => {
    if (index < axis.special) return null;
    const [row, column] = patchOf(axis, index);
    return { image, x: column * width, y: row * height, width, height };
  };
}

/** The weights of a row on what has a place in the picture. */
const placedOf = (row, axis) => (row.subarray ? row.subarray(axis.special) : row.slice(axis.special));

/** The row as a small picture of its grid, its largest weight at full strength. */
function overlayOf(row, axis, ramp) {
  const [tall, wide] = axis.grid;
  const part = placedOf(row, axis);
  const top = part[largest(part)] || 1;
  const image = new ImageData(wide, tall);
  const words = new Uint32Array(image.data.buffer);
  part.forEach((weight, index) => {
    const place = Math.max(0, weight) / top;
    const alpha = Math.round(255 * (0.3 + 0.55 * place));
    words[index] = (ramp.words[Math.round(255 * place)] & 0xffffff) | (alpha << 24);
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

export function pictureView(store, name, axis, { chooses, bars, share, look }) {
  const picture = pictureOf(look.document.input);
  const longer = Math.max(picture.width, picture.height);
  const shown = Math.max(1, Math.min(LONGEST, longer * 40) / longer);
  const [wide, tall] = [Math.round(picture.width * shown), Math.round(picture.height * shown)];
  const canvas = element('canvas', {
    class: 'picture',
    tabindex: 0,
    role: 'application',
    'aria-roledescription': 'picture',
    style: `--wide: ${wide}px; aspect-ratio: ${wide} / ${tall}`,
  });
  const chips = Array.from({ length: axis.special }, (_, index) =>
    button('chip token', labelOf(axis, index), () => pick(index), {
      onPointerenter: () => store.set({ hover: hoverToken(name, index) }),
      onPointerleave: () => store.set({ hover: null }),
    }),
  );
  const lay = button('toggle', 'overlay', () => ((plain = !plain), draw()), { 'aria-pressed': 'true' });
  const legend = element('p', { class: 'hint' }); // each row is stretched to its own largest weight
  const root = element(
    'div',
    { class: 'picture-holder' },
    canvas,
    element('div', { class: 'picture-side' }, chips, lay, legend),
  );
  let plain = false;
  let facts = { row: null, query: 0, key: 0, marks: [] };
  const written = (value) => (share ? percent(value) : value.toPrecision(3));
  const pick = (index) => store.set(chooses ? { query: index } : { key: index });
  const cell = [tall / axis.grid[0], wide / axis.grid[1]];

  function ring(context, index, colour, thick) {
    if (index === null || index < axis.special) return;
    const [row, column] = patchOf(axis, index);
    context.lineWidth = thick;
    context.strokeStyle = colour;
    context.strokeRect(column * cell[1] + thick / 2, row * cell[0] + thick / 2, cell[1] - thick, cell[0] - thick);
  }

  function draw() {
    const { colours } = store.state;
    const density = globalThis.devicePixelRatio || 1;
    canvas.width = wide * density;
    canvas.height = tall * density;
    const context = canvas.getContext('2d');
    context.setTransform(density, 0, 0, density, 0, 0);
    const image = imageOf(picture.png, draw);
    context.imageSmoothingEnabled = picture.width > 96; // a small picture is its pixels
    if (image) context.drawImage(image, 0, 0, wide, tall);
    if (bars && facts.row && !plain) {
      context.imageSmoothingEnabled = true;
      context.imageSmoothingQuality = 'high';
      context.drawImage(overlayOf(facts.row, axis, colours.overlay), 0, 0, wide, tall);
    }
    const { answer } = look.document;
    if (answer.kind === 'boxes') boxesOn(context, answer.boxes, shown, colours);
    if (chooses) {
      ring(context, facts.query, colours.surface, 5);
      ring(context, facts.query, colours.query, 3);
    }
    if (bars) ring(context, facts.key, colours.key, 2);
    for (const index of facts.marks) ring(context, index, colours.ink, 2);
    lay.hidden = !bars;
    legend.hidden = !bars || !facts.row || plain;
    lay.setAttribute('aria-pressed', !plain);
  }

  function at(event) {
    const bounds = canvas.getBoundingClientRect();
    const row = clamp(Math.floor(((event.clientY - bounds.top) / bounds.height) * axis.grid[0]), 0, axis.grid[0] - 1);
    const column = clamp(
      Math.floor(((event.clientX - bounds.left) / bounds.width) * axis.grid[1]),
      0,
      axis.grid[1] - 1,
    );
    return axis.special + row * axis.grid[1] + column;
  }
  canvas.addEventListener('pointermove', (event) => store.set({ hover: hoverToken(name, at(event)) }));
  canvas.addEventListener('pointerleave', () => store.set({ hover: null }));
  canvas.addEventListener('click', (event) => pick(at(event)));
  canvas.addEventListener('keydown', (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: axis.grid[1], ArrowUp: -axis.grid[1] }[event.key];
    if (!step) return;
    event.preventDefault();
    pick(clamp((chooses ? facts.query : facts.key) + step, 0, axis.size - 1));
  });

  function update(row, query, key) {
    facts = { ...facts, row, query, key };
    const place = chooses ? query : key;
    canvas.setAttribute(
      'aria-label',
      `The picture; ${chooses ? 'query' : 'key'}: ${wordsFor(axis, place)}. Arrow keys move.`,
    );
    chips.forEach((chip, index) => {
      chip.setAttribute('aria-pressed', index === place);
      chip.textContent = labelOf(axis, index) + (bars && row ? ` ${written(row[index])}` : '');
    });
    const placed = bars && row ? placedOf(row, axis) : [];
    legend.textContent = placed.length ? `brightest: ${written(placed[largest(placed)])}` : '';
    draw();
  }
  const point = (positions) => {
    facts = { ...facts, marks: positions.filter((index) => Number.isInteger(index)) };
    draw();
  };
  return { root, update, point };
}
