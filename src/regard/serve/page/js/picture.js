// The picture, with the row of the chosen query laid over it; a click on a patch chooses the query or the key.

import { labelOf, patchOf, pictureOf, wordsFor } from './axes.js';
import { button, clamp, element } from './dom.js';
import { imageOf, pane } from './overlay.js';
import { hoverToken } from './store.js';

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
  let facts = { row: null, query: 0, key: 0, marks: [] };
  const pick = (index) => store.set(chooses ? { query: index } : { key: index });

  function redraw() {
    const { colours } = store.state;
    const { row, query, key, marks } = facts;
    draw(bars ? row : null, [
      ...(chooses ? [[query, colours.surface, 5], [query, colours.query, 3]] : []),
      ...(bars ? [[key, colours.key, 2]] : []),
      ...marks.map((index) => [index, colours.ink, 2]),
    ]);
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
      chip.textContent = labelOf(axis, index) + (bars && row ? ` ${over.write(row[index])}` : '');
    });
    redraw();
  }
  const point = (positions) => {
    facts = { ...facts, marks: positions.filter((index) => Number.isInteger(index)) };
    redraw();
  };
  return { root, update, point };
}

/** Numbers of squares that are no positions of the net: they are looked at, not chosen from. */
export function stillPicture(store, look, { values, grid, best, label, over }) {
  const { canvas, lay, legend, draw } = pane(store, look, { grid, special: 0 }, over);
  canvas.setAttribute('role', 'img');
  canvas.setAttribute('aria-label', label);
  canvas.classList.add('still');
  draw(values, [[best, store.state.colours.key, 2]]);
  return element('div', { class: 'picture-holder' }, canvas, element('div', { class: 'picture-side' }, lay, legend));
}
