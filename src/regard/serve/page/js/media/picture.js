// The picture, with the row of the chosen query laid over it; a click on a patch chooses the query or the key.

import { labelOf, patchOf, wordsFor } from '../axes.js';
import { button, clamp, element } from '../dom.js';
import { hoverToken } from '../store.js';
import { imageOf, pane, pictureOfLook } from './overlay.js';

/** The part of the picture that a position stands for, as a function for the labels of a map.
    @param {LookLike} look @param {Axis} axis @param {() => void} then */
export function patchesFor(look, axis, then) {
  const picture = pictureOfLook(look);
  const { grid } = axis;
  const image = picture?.png && grid?.length === 2 && imageOf(picture.png, then);
  if (!image) return undefined;
  const [height, width] = [image.naturalHeight / grid[0], image.naturalWidth / grid[1]];
  return (/** @type {number} */ index) => {
    if (index < axis.special) return null;
    const [row, column] = patchOf(axis, index);
    return { image, x: column * width, y: row * height, width, height };
  };
}

/** @param {Store} store @param {string} name @param {Axis} axis @param {Roles} given */
export function pictureView(store, name, axis, { chooses, bars, look, over }) {
  const { canvas, lay, legend, draw, at } = pane(store, look, axis, over);
  canvas.tabIndex = 0;
  canvas.setAttribute('role', 'application');
  canvas.setAttribute('aria-roledescription', 'picture');
  lay.hidden = !bars;
  const chips = Array.from({ length: axis.special }, (_, index) =>
    button('chip token', labelOf(axis, index), () => pick(index), {
      onPointerenter: () => store.set({ hover: hoverToken(name, index) }),
      onPointerleave: () => store.set({ hover: null }),
    }),
  );
  const root = element(
    'div',
    { class: 'picture-holder' },
    canvas,
    element('div', { class: 'picture-side' }, chips, lay, legend),
  );
  /** @type {{ row: Numbers | null, query: number, key: number | null, marks: number[] }} */
  let facts = { row: null, query: 0, key: 0, marks: [] };
  const across = axis.grid?.[1] ?? 1;
  /** @param {number} index */
  const pick = (index) => store.set(chooses ? { query: index } : { key: index });

  function redraw() {
    const { colours } = store.state;
    const { row, query, key, marks } = facts;
    /** @type {Ring[]} */
    const chosen = [[query, colours.surface, 5], [query, colours.query, 3]];
    /** @type {Ring[]} */
    const looked = [[key, colours.key, 2]];
    /** @type {Ring[]} */
    const marked = marks.map((index) => [index, colours.ink, 2]);
    draw(bars ? row : null, [...(chooses ? chosen : []), ...(bars ? looked : []), ...marked]);
  }

  canvas.addEventListener('pointermove', (event) => store.set({ hover: hoverToken(name, at(event)) }));
  canvas.addEventListener('pointerleave', () => store.set({ hover: null }));
  canvas.addEventListener('click', (event) => pick(at(event)));
  canvas.addEventListener('keydown', (event) => {
    /** @type {Record<string, number>} */
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: across, ArrowUp: -across };
    const step = steps[event.key];
    if (!step) return;
    event.preventDefault();
    pick(clamp((chooses ? facts.query : facts.key ?? 0) + step, 0, axis.size - 1));
  });

  /** @param {Numbers | null} row @param {number} query @param {number | null} key */
  function update(row, query, key) {
    facts = { ...facts, row, query, key };
    const place = chooses ? query : key;
    canvas.setAttribute(
      'aria-label',
      `Image; ${chooses ? 'query' : 'key'}: ${place === null ? 'none' : wordsFor(axis, place)}. Arrow keys select a patch.`,
    );
    chips.forEach((chip, index) => {
      chip.setAttribute('aria-pressed', String(index === place));
      chip.textContent = labelOf(axis, index) + (bars && row ? ` ${over.write(row[index])}` : '');
    });
    redraw();
  }
  /** @param {number[]} positions */
  const point = (positions) => {
    facts = { ...facts, marks: positions.filter((index) => Number.isInteger(index)) };
    redraw();
  };
  return { root, update, point };
}

/** Numbers of squares that are no positions of the net: they are looked at, not chosen from.
    @param {Store} store @param {LookLike} look @param {StillFacts} told */
export function stillPicture(store, look, { values, grid, best, label, over }) {
  const { canvas, lay, legend, draw } = pane(store, look, { grid, special: 0 }, over);
  canvas.setAttribute('role', 'img');
  canvas.setAttribute('aria-label', label);
  canvas.classList.add('still');
  draw(values, [[best, store.state.colours.key, 2]]);
  return element('div', { class: 'picture-holder' }, canvas, element('div', { class: 'picture-side' }, lay, legend));
}
