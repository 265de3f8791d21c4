// The large view of one head: map, lines or comparison; its legend, its table and what can be taken away.

import { wordsFor } from './axes.js';
import { button, choices, element, fromTo, tableBehind } from './dom.js';
import { changedWords } from './changed.js';
import { comparison } from './compare.js';
import { heatMap } from './heatmap.js';
import { linesView } from './lines.js';
import { currentMatrix, MATRIX, tickOf, writerOf } from './matrix.js';
import { placesOf } from './media/index.js';
import { hoverCell, pointed, siteOf, turn } from './store.js';
import { takeAway } from './takeaway.js';

const TABLE = 64; // rows and columns that a table shows

/** @param {Store} store */
function legendOf(store) {
  const bar = element('span', { class: 'legend-bar' });
  const ticks = element('span', { class: 'legend-ticks' });
  store.watch([...MATRIX, 'colours'], (state) => {
    const matrix = currentMatrix(state);
    if (!matrix) return;
    const { scale } = matrix;
    bar.style.background = `linear-gradient(to right, ${state.colours[scale.ramp].gradient()})`;
    /** @param {number} value */
    const tick = (value) => element('span', { style: `left: ${100 * scale.place(value)}%` }, tickOf(scale, value));
    ticks.replaceChildren(...scale.ticks.map(tick));
  });
  return element('div', { class: 'legend', 'aria-hidden': 'true' }, bar, ticks);
}

/** @param {Store} store */
function steppers(store) {
  /** @param {'site' | 'head'} name @param {string} word */
  const pair = (name, word) =>
    element(
      'span',
      { class: 'stepper', 'data-name': name },
      button('', '‹', () => turn(store, name, -1), { 'aria-label': `previous ${word}` }),
      element('span', { 'aria-hidden': 'true' }, word),
      button('', '›', () => turn(store, name, 1), { 'aria-label': `next ${word}` }),
    );
  return element('div', { class: 'steppers' }, pair('site', 'layer'), pair('head', 'head'));
}

/** The corner of a matrix as a table: of a large one, around the chosen cell. @param {Matrix} facts */
function tableOf({ sheet, rows, columns, name, query, key, differs }) {
  /** @param {number} place @param {number} count */
  const from = (place, count) => Math.max(0, Math.min(place - TABLE / 2, count - TABLE));
  const [top, left] = [from(query, rows.length), from(key, columns.length)];
  const shown = columns.slice(left, left + TABLE);
  /** @param {number | null | undefined} value */
  const write = (value) => (value === null || value === undefined ? '…' : value.toFixed(differs ? 2 : 3));
  const part = rows.length > TABLE || columns.length > TABLE ? ', part around the selected cell' : '';
  return {
    caption: `${name}: rows are queries, columns are keys${part}`,
    columns: ['query \\ key', ...shown],
    rows: rows
      .slice(top, top + TABLE)
      .map((label, row) => [label, ...shown.map((_, column) => write(sheet.value(top + row, left + column)))]),
  };
}

/** @param {Store} store @param {Source} source */
export function stage(store, source) {
  const title = element('h2', { 'aria-live': 'polite' });
  const average = button(
    'toggle',
    'mean of heads',
    () => store.set({ head: store.state.head === 'mean' ? 0 : 'mean' }),
    {
      title: 'Average over the heads of this layer (A)',
    },
  );
  const views = choices(
    'View',
    [
      ['map', 'Map'],
      ['lines', 'Lines'],
      ['compare', 'Compare'],
    ],
    (view) => store.set({ view }),
  );
  const contrast = choices(
    'Colour scale',
    [
      ['root', '√ scale', 'square root of the weight: small weights stay visible'],
      ['linear', 'linear', 'linear in the weight'],
    ],
    (value) => store.set({ contrast: value }),
  );
  const openCell = () => store.set({ opened: (store.state.opened ?? 0) + 1 });
  const map = heatMap({
    label: 'Attention map. Arrow keys select a cell; Enter shows how its weight is computed.',
    onOpen: openCell,
    onHover: (/** @type {Place | null} */ cell) => {
      const site = siteOf(store.state);
      if (site) store.set({ hover: hoverCell(site, cell) });
    },
    onPick: (/** @type {Place | null} */ cell) => {
      const { query, key: column } = store.state;
      if (cell) store.set({ query: cell.query ?? query, key: cell.key ?? column });
    },
  });
  const toCell = button('plain to-cell', 'Computation', openCell);
  const lines = linesView(store);
  const summary = comparison(store, source);
  const status = element('p', { class: 'readout', role: 'status' });
  const kind = element('p', { class: 'hint kind' });
  const key = element('div', { class: 'stage-scale' }, contrast.root, legendOf(store));
  const thin = element('p', { class: 'hint' });
  const table = tableBehind('Table of this view', () => {
    const matrix = currentMatrix(store.state);
    return matrix && tableOf(matrix);
  });
  /** @type {{ query?: Ticks, key?: Ticks, look?: LookLike, rowAxis?: Axis, columnAxis?: Axis, waits?: boolean }} */
  let patches = {}; // kept, so that the map sees that nothing changed

  /** @param {Force} facts */
  function patchesOf({ look, rowAxis, columnAxis }) {
    if (patches.look !== look || patches.rowAxis !== rowAxis || patches.columnAxis !== columnAxis || patches.waits) {
      const again = () => store.set({ arrived: store.state.arrived + 1 });
      /** @param {Axis} axis */
      const ticks = (axis) => placesOf(axis)?.ticks?.(look, axis, again);
      const made = { query: ticks(rowAxis), key: ticks(columnAxis) };
      /** @param {Axis} axis */
      const drawn = (axis) => placesOf(axis)?.ticks && placesOf(axis)?.lays(look, axis);
      patches = {
        ...made,
        look,
        rowAxis,
        columnAxis,
        waits: !made.query && !made.key && Boolean(drawn(rowAxis) || drawn(columnAxis)), // they are not decoded yet
      };
    }
    return patches;
  }

  /** @param {Matrix} facts */
  function explain({ site, apart }) {
    if (apart) return `These two maps cannot be subtracted: ${apart}. This is the first.`;
    if (site.kind === 'influence')
      return 'Influence map: how much each output changes with each input, the norm of dy/dx. Rows do not sum to 1.';
    if (site.kind === 'signed')
      return 'Signed weights: values with negative weights are subtracted. Rows do not sum to 1.';
    return '';
  }

  store.watch([...MATRIX, 'colours', 'hover', 'query', 'key', 'opened'], (state) => {
    const matrix = currentMatrix(state);
    views.choose(state.view);
    contrast.choose(state.contrast);
    if (!matrix) return;
    const { sheet, site, rows, columns, scale, rowAxis, columnAxis } = matrix;
    const inLines = state.view === 'lines';
    title.textContent = matrix.name;
    average.setAttribute('aria-pressed', String(state.head === 'mean'));
    average.hidden = site.heads === 1;
    contrast.root.hidden = scale.ramp === 'difference';
    key.hidden = inLines;
    thin.hidden = !inLines;
    thin.textContent =
      Math.max(rows.length, columns.length) > 64
        ? 'Long input: only the selected query and the keys with the largest weights.'
        : site.kind === 'weights'
          ? 'Thicker lines are larger weights. Weights below 2 % are not drawn.'
          : 'Thicker lines are larger weights. Negative weights and those below 2 % of the largest are not drawn.';
    map.root.hidden = inLines;
    lines.hidden = !inLines;
    summary.hidden = state.view !== 'compare';
    kind.textContent = [explain(matrix), changedWords(matrix.look)].filter(Boolean).join(' ');
    kind.hidden = kind.textContent === '';
    const spot = pointed(state.hover, site);
    if (!inLines)
      map.show({
        sheet,
        rows,
        columns,
        scale,
        colours: state.colours,
        hover: spot,
        cursor: matrix,
        patches: patchesOf(matrix),
      });
    const cell = { query: spot?.query ?? matrix.query, key: spot?.key ?? matrix.key };
    const value = sheet.value(cell.query, cell.key);
    status.replaceChildren(
      ...fromTo(wordsFor(rowAxis, cell.query), wordsFor(columnAxis, cell.key)),
      ' ',
      element('b', {}, value === null ? '…' : writerOf(matrix)(value)),
    );
    toCell.hidden = state.opened === null;
    table.refresh();
  });
  store.watch(['arrived'], () => map.redraw());

  summary.hidden = true;
  return element(
    'section',
    { class: 'card stage', 'aria-label': 'Selected head' },
    element(
      'header',
      { class: 'stage-head' },
      element('div', {}, title, steppers(store)),
      element('div', { class: 'stage-controls' }, average, views.root),
    ),
    summary,
    kind,
    element('div', { class: 'stage-body' }, map.root, lines),
    element('div', { class: 'stage-foot' }, element('div', { class: 'row' }, status, toCell), key, thin),
    takeAway(store, source),
    table.root,
  );
}
