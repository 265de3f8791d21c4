// One small observable state. The page, the stand-alone file and the notebook widget share it.

import { sitesAt } from './time.js';

/** @type {State} */
export const INITIAL = {
  // What is asked.
  model: null,
  input: null,
  changes: [],
  draft: 0, // which writing the text came from, pause by pause: it is one step of the browser's history; 0 is none
  // What is chosen. A row is a query, a column a key: as in the API, the words in the picture are the lectures'.
  site: null,
  head: 0, // a number, or 'mean' for the average over the heads of the site
  view: 'map', // map | lines | compare
  query: 0,
  key: 0, // with query: the open cell
  time: null, // { unit, count, index }: the moment of a look that has several; null where there is none
  withSite: null, // the second map of a comparison
  withHead: 0,
  other: null, // { model } or { attention }: the second map is then another model's
  contrast: 'root', // root | linear
  overlay: true, // whether a row is laid over the picture
  tab: 'rollout',
  // What came.
  look: null,
  second: null, // { look, sites }: the other model's
  sheet: null, // { site, head, look, sheet }: the map in force
  secondSheet: null,
  cell: null, // { site, head, query, key, numbers }
  arrived: 0, // counts levels and rows that came later
  busy: false,
  blank: false, // no maps are shown: those that are there are of other words than the ones that stand above
  choose: false, // whether a cell is to be chosen for the words to come
  error: '',
  notice: '', // what the reader should know, though all went well
  // The surroundings.
  theme: 'light',
  colours: /** @type {any} */ (null), // the palette of the theme in force
  permalink: false, // true where the address can hold the view
  opened: null, // counts how often the arithmetic was asked for; null where it is not mounted
  hover: null, // { query: { axis, position } | null, key: the same }: the token or cell under the pointer
};

/** @param {Spot | null} first @param {Spot | null} second */
const samePlace = (first, second) => first?.axis === second?.axis && first?.position === second?.position;

/** @param {string} name @param {any} first @param {any} second */
const same = (name, first, second) =>
  first === second ||
  (name === 'hover' && first && second && samePlace(first.query, second.query) && samePlace(first.key, second.key));

/** @param {Partial<State>} initial @returns {Store} */
export function createStore(initial = {}) {
  const state = { ...INITIAL, ...initial };
  /** @type {Set<{ keys: (keyof State)[], run: (state: State) => unknown }>} */
  const watchers = new Set();
  /** @type {Set<string>} */
  let changed = new Set();

  function flush() {
    const keys = changed;
    changed = new Set();
    for (const watcher of [...watchers]) {
      if (watcher.keys.some((key) => keys.has(key))) watcher.run(state);
    }
  }

  /** @param {Partial<State>} patch */
  function set(patch) {
    for (const [key, value] of Object.entries(patch)) {
      const own = /** @type {Record<string, unknown>} */ (/** @type {unknown} */ (state));
      if (same(key, own[key], value)) continue;
      own[key] = value;
      if (changed.size === 0) queueMicrotask(flush);
      changed.add(key);
    }
  }

  /** @param {(keyof State)[]} keys @param {(state: State) => unknown} run */
  function watch(keys, run, { now = true } = {}) {
    const watcher = { keys, run };
    watchers.add(watcher);
    if (now) run(state);
    return () => void watchers.delete(watcher);
  }

  return { state, set, watch };
}

/** Where the pointer is on this site: its row and column, as far as its axes are meant.
    @param {Hover | null} hover @param {Site | null} site */
export function pointed(hover, site) {
  if (!hover || !site) return null;
  const query = hover.query?.axis === site.rows ? hover.query.position : null;
  const key = hover.key?.axis === site.columns ? hover.key.position : null;
  return query === null && key === null ? null : { query, key };
}

/** @param {Site} site @param {Place | null} cell */
export const hoverCell = (site, cell) =>
  cell && {
    query: cell.query === null ? null : { axis: site.rows, position: cell.query },
    key: cell.key === null ? null : { axis: site.columns, position: cell.key },
  };

/** A token under the pointer is meant wherever it stands, as a query and as a key.
    @param {string} axis @param {number} position */
export const hoverToken = (axis, position) => ({ query: { axis, position }, key: { axis, position } });

/** The site in force, with its axes. @param {State} state */
export function siteOf(state) {
  const { look } = state;
  const site = look?.sites.get(state.site);
  if (!look || !site) return null;
  const { axes } = look.document;
  return { ...site, rowAxis: axes[site.rows], columnAxis: axes[site.columns] };
}

/** Step to the next site, head or query, around the end; from the mean a step leads to the first or the last head.
    @param {Store} store @param {'site' | 'head' | 'query'} name @param {number} by */
export function turn(store, name, by) {
  const { look, head } = store.state;
  const site = siteOf(store.state);
  if (!look || !site) return;
  if (name === 'site') {
    const names = sitesAt(look.document.sites, store.state.time).map((one) => one.name);
    store.set({ site: names[(names.indexOf(site.name) + by + names.length) % names.length] });
    return;
  }
  const limit = name === 'head' ? site.heads : site.rowAxis.size;
  const own = name === 'head' ? head : store.state.query;
  const value = own === 'mean' ? (by > 0 ? -1 : limit) : own;
  store.set({ [name]: (value + by + limit) % limit });
}
