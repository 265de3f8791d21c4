// A long input as one line of bars: too many tokens to write, but each can be pointed at and chosen.

import { labelOf } from './axes.js';
import { clamp, drawingOn, element, furthest } from './dom.js';
import { hoverToken } from './store.js';

const TALL = 72;
/** @type {Record<string, number>} */
const STRIDES_OF_PAGES = { ArrowRight: 1, ArrowLeft: -1, PageUp: -64, PageDown: 64, Home: -Infinity, End: Infinity };

/** @param {Store} store @param {string} name @param {Axis} axis @param {Roles} given */
export function profileStrip(store, name, axis, { chooses, bars, over }) {
  const canvas = element('canvas', { class: 'profile' });
  const told = element('span', { class: 'hint profile-told' });
  const root = element(
    'div',
    {
      class: 'profile-holder',
      tabindex: 0,
      role: 'slider',
      'aria-label': chooses ? 'Query token' : 'Key token',
      'aria-valuemin': 0,
      'aria-valuemax': axis.size - 1,
    },
    canvas,
    told,
  );
  /** @type {{ row: Numbers | null, query: number, key: number | null, marks: number[] }} */
  let facts = { row: null, query: 0, key: 0, marks: [] };
  let wide = 0;

  function draw() {
    const { colours } = store.state;
    if (!wide || !colours) return;
    const density = globalThis.devicePixelRatio || 1;
    const context = drawingOn(canvas);
    if (canvas.width !== Math.round(wide * density)) {
      canvas.width = Math.round(wide * density);
      canvas.height = TALL * density;
    }
    context.setTransform(density, 0, 0, density, 0, 0);
    context.clearRect(0, 0, wide, TALL);
    /** @param {number} index */
    const x = (index) => (index / axis.size) * wide;
    const { row, query, key, marks } = facts;
    if (row && bars) {
      const top = furthest(row) || 1;
      context.fillStyle = colours.accent;
      const tops = new Float32Array(Math.ceil(wide)); // the highest bar of each pixel
      row.forEach((weight, index) => {
        const pixel = Math.floor(x(index));
        tops[pixel] = Math.max(tops[pixel], Math.abs(weight) / top);
      });
      tops.forEach((height, pixel) =>
        context.fillRect(pixel, TALL - 4 - height * (TALL - 10), 1, height * (TALL - 10)),
      );
    }
    /** @param {number} index @param {string} colour @param {number} thick */
    const mark = (index, colour, thick) => {
      context.fillStyle = colour;
      context.fillRect(x(index) - thick / 2 + 0.5, 0, thick, TALL);
    };
    if (chooses) mark(query, colours.query, 2);
    if (bars && key !== null) mark(key, colours.key, 1.5);
    for (const index of marks) mark(index, colours.ink, 1);
  }

  /** @param {MouseEvent} event */
  const at = (event) => clamp(Math.floor((event.offsetX / (wide || 1)) * axis.size), 0, axis.size - 1);
  /** @param {number} index */
  const pick = (index) => store.set(chooses ? { query: index } : { key: index });
  canvas.addEventListener('pointermove', (event) => store.set({ hover: hoverToken(name, at(event)) }));
  canvas.addEventListener('pointerleave', () => store.set({ hover: null }));
  canvas.addEventListener('click', (event) => pick(at(event)));
  root.addEventListener('keydown', (event) => {
    const step = STRIDES_OF_PAGES[event.key];
    if (!step) return;
    event.preventDefault();
    pick(clamp((chooses ? facts.query : facts.key ?? 0) + step, 0, axis.size - 1));
  });
  new ResizeObserver(([entry]) => {
    wide = Math.round(entry.contentRect.width);
    draw();
  }).observe(canvas);

  /** @param {Numbers | null} row @param {number} query @param {number | null} key */
  function update(row, query, key) {
    facts = { ...facts, row, query, key };
    const place = chooses ? query : key ?? 0;
    root.setAttribute('aria-valuenow', String(place));
    root.setAttribute('aria-valuetext', `${place}: ${labelOf(axis, place)}`);
    draw();
    say(place);
  }

  /** @param {number} place */
  function say(place) {
    const weight = facts.row?.[place];
    const worth = weight === undefined || !bars ? '' : `, ${over.write(weight)}`;
    told.textContent = `${place.toLocaleString('en')} of ${axis.size.toLocaleString('en')}: ${labelOf(axis, place)}${worth}`;
  }

  /** @param {number[]} positions */
  function point(positions) {
    facts = { ...facts, marks: positions.filter((index) => Number.isInteger(index)) };
    say(facts.marks[0] ?? (chooses ? facts.query : facts.key ?? 0));
    draw();
  }
  return { root, update, point };
}
