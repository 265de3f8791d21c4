// One head as lines from query tokens (left) to key tokens (right); thicker is heavier.
// Of a long input only the chosen row is drawn, to the keys that it looks at most.

import { labelOf } from './axes.js';
import { element, furthest, percent, shape } from './dom.js';
import { inForce } from './matrix.js';
import { hoverCell, pointed } from './store.js';

const STEP = 30;
const TOP = 30;
const LEAST = 0.02;
const MOST = 64; // tokens; above, one row alone
const FEW = 24; // keys of that row
/** @param {number} width */
const ends = (width) => [width * 0.28, width * (width < 420 ? 0.6 : 0.72)]; // narrow: more room for the weights on the right

/** The keys that one row looks at most, in their own order. @param {Numbers} row */
function strongest(row) {
  const order = Array.from(row.keys()).sort((first, second) => row[second] - row[first]);
  return order.slice(0, FEW).sort((first, second) => first - second);
}

/** @param {Store} store */
export function linesView(store) {
  const root = element('div', {
    class: 'lines',
    tabindex: 0,
    role: 'application',
    'aria-roledescription': 'attention lines',
    'aria-label': 'Lines from query tokens to key tokens. The up and down arrow keys select a query.',
  });
  /** @type {DrawnLines | null} */
  let parts = null;

  /** @param {string} text @param {number} index @param {number} height @param {string} side @param {number} width
      @param {Site} site */
  function token(text, index, height, side, width, site) {
    const left = side === 'query';
    const [start, end] = ends(width);
    const y = TOP + (height + 0.5) * STEP;
    return shape(
      'g',
      {
        class: `line-token ${side}`,
        onClick: () => store.set(left ? { query: index } : { key: index }),
        onPointerenter: () =>
          store.set({ hover: hoverCell(site, left ? { query: index, key: null } : { query: null, key: index }) }),
        onPointerleave: () => store.set({ hover: null }),
      },
      shape('rect', {
        x: left ? 0 : end,
        y: y - STEP / 2,
        width: left ? start : width - end,
        height: STEP,
        fill: 'transparent',
      }),
      shape(
        'text',
        { x: left ? start - 12 : end + 12, y, 'text-anchor': left ? 'end' : 'start', 'dominant-baseline': 'central' },
        text,
      ),
    );
  }

  /** @param {Force} force @param {WantedLines} wanted */
  function build(force, wanted) {
    const { site, rowAxis, columnAxis } = force;
    const { queries, keys } = wanted;
    const width = Math.max(260, root.clientWidth || 520);
    const tallest = Math.max(queries.length, keys.length);
    /** @param {number} count */
    const down = (count) => (tallest - count) / 2; // the shorter side stands in the middle
    const [start, end] = ends(width);
    const middle = (start + end) / 2;
    /** @param {number} place @param {number} count */
    const y = (place, count) => TOP + (down(count) + place + 0.5) * STEP;
    const paths = queries.flatMap((query, i) =>
      keys.map((key, j) => {
        const [from, to] = [y(i, queries.length), y(j, keys.length)];
        const d = `M${start} ${from}C${middle} ${from} ${middle} ${to} ${end} ${to}`;
        return { query, key, path: shape('path', { d, fill: 'none', 'stroke-linecap': 'round' }) };
      }),
    );
    const left = queries.map((index, i) =>
      token(labelOf(rowAxis, index), index, down(queries.length) + i, 'query', width, site),
    );
    const right = keys.map((index, j) =>
      token(labelOf(columnAxis, index), index, down(keys.length) + j, 'key', width, site),
    );
    /** @param {string} text @param {number} x @param {string} anchor */
    const heading = (text, x, anchor) =>
      shape('text', { class: 'line-heading', x, y: 14, 'text-anchor': anchor }, text);
    root.replaceChildren(
      shape(
        'svg',
        {
          viewBox: `0 0 ${width} ${TOP + tallest * STEP + 6}`,
          width: '100%',
          height: TOP + tallest * STEP + 6,
          'aria-hidden': 'true',
        },
        heading(site.rows === site.columns ? 'query' : `${site.rows} (query)`, start - 12, 'end'),
        heading(site.rows === site.columns ? 'key' : `${site.columns} (key)`, end + 12, 'start'),
        shape(
          'g',
          { class: 'line-paths' },
          paths.map(({ path }) => path),
        ),
        left,
        right,
      ),
    );
    const { look, sheet } = force;
    parts = { ...wanted, paths, left, right, width, look, sheet, rows: site.rows, columns: site.columns };
  }

  /** @param {Force} facts */
  function wantedOf({ rowAxis, columnAxis, query, sheet }) {
    /** @param {Axis} axis */
    const all = (axis) => Array.from({ length: axis.size }, (_, index) => index);
    if (Math.max(rowAxis.size, columnAxis.size) <= MOST)
      return { queries: all(rowAxis), keys: all(columnAxis), whole: true };
    const row = sheet.row(query);
    return row && { queries: [query], keys: strongest(row), whole: false, query };
  }

  /** @param {Force} force @param {WantedLines} wanted */
  const stale = (force, wanted) =>
    !parts ||
    parts.look !== force.look ||
    parts.rows !== force.site.rows ||
    parts.columns !== force.site.columns ||
    Math.abs(parts.width - root.clientWidth) > 2 ||
    (!wanted.whole && (parts.query !== wanted.query || parts.sheet !== force.sheet));

  /** @param {State} state */
  function draw(state) {
    const force = inForce(state);
    if (state.view !== 'lines' || !force) return;
    const wanted = wantedOf(force);
    if (!wanted) return;
    if (stale(force, wanted)) build(force, wanted);
    const drawn = parts;
    if (!drawn) return;
    const { sheet, site, columnAxis } = force;
    const top = site.kind === 'weights' || !sheet.exact ? 1 : furthest(sheet.exact) || 1;
    const focus = pointed(state.hover, site) ?? { query: force.query, key: null };
    for (const { path, query, key } of drawn.paths) {
      const weight = (sheet.value(query, key) ?? 0) / top;
      const chosen =
        (focus.query === query && (focus.key === null || focus.key === key || site.rows === site.columns)) ||
        (focus.query === null && focus.key === key);
      path.setAttribute('visibility', weight < LEAST && drawn.whole ? 'hidden' : 'visible');
      path.setAttribute('stroke-width', (1 + 9 * weight).toFixed(2));
      path.setAttribute('stroke-opacity', (chosen ? 0.35 + 0.65 * weight : 0.04 + 0.16 * weight).toFixed(3));
      path.setAttribute('class', chosen ? (focus.query === null ? 'line key' : 'line query') : 'line');
    }
    drawn.left.forEach((node, place) => node.toggleAttribute('data-on', focus.query === drawn.queries[place]));
    drawn.right.forEach((node, place) => {
      const key = drawn.keys[place];
      const weight = focus.query === null ? 0 : (sheet.value(focus.query, key) ?? 0) / top;
      const told = weight >= 0.1 || (!drawn.whole && weight >= 0.005);
      node.toggleAttribute('data-on', focus.key === key || weight >= 0.1);
      if (node.lastChild) node.lastChild.textContent =
        labelOf(columnAxis, key) +
        (told && site.kind === 'weights' ? `  ${percent(weight, weight < 0.1 ? 1 : 0)}` : '');
    });
  }

  root.addEventListener('keydown', (event) => {
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    const force = inForce(store.state);
    if (!step || !force) return;
    event.preventDefault();
    store.set({ hover: null, query: (force.query + step + force.rowAxis.size) % force.rowAxis.size });
  });
  new ResizeObserver(() => draw(store.state)).observe(root);
  store.watch(['sheet', 'arrived', 'query', 'hover', 'view'], draw);
  return root;
}
