// Where in the picture the chosen word is looked at: its column of the map, laid over the picture. The mean over all
// layers and heads of this moment, and beside it the head that is chosen.

import { headWord, isGrid, labelOf } from './axes.js';
import { element, plural, role } from './dom.js';
import { OVERS, SHARES } from './light.js';
import { inForce } from './matrix.js';
import { pane, pictureOfLook } from './media/overlay.js';
import { sitesAt } from './time.js';

/** Numbers on a grid, at another size: linear between the middles of the cells, and even beyond the outermost.
    @param {Numbers} values @param {number[]} from @param {number[]} to */
export function resized(values, [tall, wide], [rows, columns]) {
  /** @param {number} place @param {number} count @param {number} size */
  const between = (place, count, size) => {
    const at = Math.min(size - 1, Math.max(0, ((place + 0.5) * size) / count - 0.5));
    const low = Math.floor(at);
    return { low, high: Math.min(size - 1, low + 1), share: at - low };
  };
  const down = Array.from({ length: rows }, (_, row) => between(row, rows, tall));
  const across = Array.from({ length: columns }, (_, column) => between(column, columns, wide));
  const found = new Float32Array(rows * columns);
  down.forEach((y, row) => {
    across.forEach((x, column) => {
      /** @param {number} line */
      const along = (line) => values[line * wide + x.low] * (1 - x.share) + values[line * wide + x.high] * x.share;
      found[row * columns + column] = along(y.low) * (1 - y.share) + along(y.high) * y.share;
    });
  });
  return found;
}

/** Whether a site looks from the picture at what is no picture. @param {LookLike} look @param {Site} site */
function asksWords(look, site) {
  const { axes } = look.document;
  return site.kind === 'weights' && isGrid(axes[site.rows]) && !isGrid(axes[site.columns]) && pictureOfLook(look) !== null;
}

/** One column of a whole map, as far as it has a place in the picture. @param {SheetLike} sheet @param {Axis} axis @param {number} key */
function columnOf({ exact, columns }, { size, special }, key) {
  return exact && Float32Array.from({ length: size - special }, (_, row) => exact[(row + special) * columns + key]);
}

/** The mean of a word over all layers and heads of this moment, at the size of the finest. Maps that are too large to
    come whole are left out, and counted. @param {LookLike} look @param {Site} site @param {Time | null} time @param {number} key */
export async function meanOfWord(look, site, time, key) {
  const { axes, sites } = look.document;
  const layers = sitesAt(sites, time).filter((one) => one.columns === site.columns && asksWords(look, one));
  const sheets = await Promise.all(layers.map((one) => look.sheet(one.name, 'mean')));
  const parts = sheets.flatMap((sheet, index) => {
    const axis = axes[layers[index].rows];
    const values = columnOf(sheet, axis, key);
    return values ? [{ values, grid: axis.grid ?? [1, 1] }] : [];
  });
  const grid = parts.reduce((most, part) => (part.grid[0] * part.grid[1] > most[0] * most[1] ? part.grid : most), [1, 1]);
  const values = new Float32Array(grid[0] * grid[1]);
  for (const part of parts)
    resized(part.values, part.grid, grid).forEach((value, index) => (values[index] += value / parts.length));
  return { values, grid, layers: parts.length, left: layers.length - parts.length };
}

/** @param {Store} store */
export function wordView(store) {
  const title = element('h3');
  const body = element('div', { class: 'word-maps' });
  const root = element('div', { class: 'word-view', role: 'group', 'aria-label': 'The chosen word in the image' }, title, body);
  let turn = 0;

  /** @param {LookLike} look @param {Gridded} axis @param {Over} over @param {Numbers} values @param {string} told @param {string} word */
  function panel(look, axis, over, values, told, word) {
    const { canvas, legend, draw } = pane(store, look, axis, over);
    canvas.classList.add('still');
    canvas.setAttribute('role', 'img');
    canvas.setAttribute('aria-label', `Where the image attends to ${word}: ${told}`);
    draw(values, []);
    return element('figure', {}, canvas, element('figcaption', {}, told), legend);
  }

  store.watch(['sheet', 'key', 'time', 'colours', 'overlay'], (state) => {
    const mine = (turn += 1);
    const force = inForce(state);
    root.hidden = !force || !asksWords(force.look, force.site);
    if (!force || root.hidden) return;
    const { look, site, head, sheet, rowAxis, columnAxis, key } = force;
    const word = labelOf(columnAxis, key);
    meanOfWord(look, site, state.time, key).then(
      ({ values, grid, layers, left }) => {
        if (mine !== turn) return;
        title.replaceChildren('Where the image attends to ', role('key', word));
        const all = `mean of ${plural(layers, 'layer')}, all heads${left ? ` (${left} too large)` : ''}`;
        const own = columnOf(sheet, rowAxis, key);
        body.replaceChildren(
          ...(layers ? [panel(look, { grid, special: 0 }, SHARES, values, all, word)] : []),
          ...(own ? [panel(look, { grid: rowAxis.grid, special: 0 }, OVERS[site.kind], own, headWord(site, head), word)] : []),
        );
      },
      () => {}, // the look was left: the next one draws itself
    );
  });
  return root;
}
