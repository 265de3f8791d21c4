// Turns what is chosen into what is there: asks the source, and puts looks, sheets and cells into the state.
// Views read the state alone; an older map stays on the screen until the newer one is here.

import { labelOf, whyApart } from './axes.js';
import { fitsLook } from './changed.js';
import { clamp, largest, plural } from './dom.js';
import { mediumOf } from './media/index.js';
import { differenceSheet } from './sheet.js';
import { inWords, isAbort } from './source.js';
import { siteAt, sitesAt, timeOf } from './time.js';

/** The site to begin with: where a translator's words look at their source, else the last that mixes by weights.
    @param {LookLike} look @param {Time | null} time */
export function firstSite(look, time = null) {
  const sites = sitesAt(look.document.sites, time);
  const cross = sites.filter((site) => site.role === 'cross');
  return (cross.at(-1) ?? sites.findLast((site) => site.arithmetic) ?? sites.at(-1))?.name ?? null;
}

/** The state, made to fit a look: names that it has, places that exist.
    @param {State} state @param {LookLike} look */
function fitted(state, look) {
  const time = timeOf(look.document, state.time?.index);
  const name = look.sites.has(state.site) ? siteAt(look.document.sites, state.site, time) : firstSite(look, time);
  const site = look.sites.get(name);
  const { head, query, key, withHead } = state;
  if (!site) return { site: null, time, head, query, key, withHead };
  const [rows, columns] = look.shape(site.name);
  /** @param {Head} one @param {Site} of */
  const within = (one, of) => (one === 'mean' ? one : clamp(one, 0, of.heads - 1));
  const withSite = look.sites.has(state.withSite) ? state.withSite : site.name;
  return {
    time,
    site: site.name,
    head: within(state.head, site),
    query: clamp(state.query, 0, rows - 1),
    key: clamp(state.key, 0, columns - 1),
    withSite,
    withHead: within(state.withHead, look.at(withSite)),
  };
}

/** The row in the middle, and where that looks most. @param {LookLike} look @param {string} name @param {Head} head */
async function middleCell(look, name, head) {
  const [rows] = look.shape(name);
  const { grid, special } = look.document.axes[look.at(name).rows];
  const query = grid ? special + Math.floor(grid[0] / 2) * grid[1] + Math.floor(grid[1] / 2) : Math.floor(rows / 2);
  return { head, query, key: largest(await look.fetchRow(name, head, query)) };
}

/** A cell worth opening with: one of the head that is most decided. @param {LookLike} look @param {string} name */
async function firstCell(look, name) {
  const copies = (await look.thumbnails()).get(name) ?? [];
  /** @param {Copy} facts */
  const peaks = ({ values, columns }) => {
    let sum = 0;
    for (let start = 0; start < values.length; start += columns)
      sum += Math.max(...values.subarray(start, start + columns));
    return sum;
  };
  return middleCell(look, name, largest(copies.map(peaks))); // a copy may be halved
}

/** A cell for new words: the one that is open, where it is of the same words; else one to open with.
    @param {State} state @param {LookLike} look */
async function nextCell(state, look) {
  const { look: before, site, query, key } = state;
  const [old, own] = [before?.sites.get(site), look.sites.get(site)];
  if (!before || !old || !own) return {};
  /** @param {'rows' | 'columns'} side @param {number} place */
  const stays = (side, place) => {
    const [one, two] = [before.document.axes[old[side]], look.document.axes[own[side]]];
    return place < Math.min(one.size, two.size) && labelOf(one, place) === labelOf(two, place);
  };
  if (stays('rows', query) && stays('columns', key)) return {};
  const head = state.head === 'mean' ? state.head : clamp(state.head, 0, own.heads - 1);
  return middleCell(look, own.name, head);
}

/** Whether there is nothing to look at. @param {Input} input */
const isBlank = (input) => mediumOf(input).isBlank?.(input) ?? false;

/** One task at a time of each kind: a newer one makes the older one's result worthless. */
function newest() {
  let turnOf = 0;
  /** @template T @param {Promise<T>} promise @param {(value: T) => void} use @param {(error: unknown) => void} fail */
  return (promise, use, fail) => {
    const mine = (turnOf += 1);
    promise.then(
      (value) => mine === turnOf && use(value),
      (error) => mine === turnOf && !isAbort(error) && fail(error),
    );
  };
}

/** @param {Store} store @param {Source} source */
export function loader(store, source) {
  const [lookTask, sheetTask, secondTask, compareTask, cellTask] = Array.from({ length: 5 }, newest);
  /** @type {AbortController | null} */
  let abort = null;
  /** @type {AbortController | null} */
  let compareAbort = null;
  let timer = 0;
  let waiting = false;
  const arrival = () => {
    if (waiting) return; // what comes within one frame is drawn once
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      store.set({ arrived: store.state.arrived + 1 });
    });
  };
  /** @param {unknown} error */
  const words = (error) => inWords(error, 'The result cannot be shown.');
  /** What stays on the screen was left when another look was asked for: what it still lacks is asked for again. */
  const stayed = () => (store.state.look ? { look: store.state.look.again() } : {});
  /** @param {unknown} error */
  const report = (error) => store.set({ busy: false, error: words(error) });

  /** A model that cannot be looked into: what was there before stays, under its own name. @param {unknown} error */
  const failed = (error) => {
    const before = store.state.look?.request;
    if (!before || before.model === store.state.model) {
      const blank = !before || JSON.stringify(before.input) !== JSON.stringify(store.state.input);
      return store.set({ busy: false, error: words(error), blank, ...stayed() });
    }
    store.set({ ...before, site: null, busy: false, notice: words(error) });
  };

  /** Changes that the model was refused with: those about what it does not have are dropped, and it is looked at again.
      @param {LookRequest} facts @param {unknown} error @param {AbortSignal | undefined} signal @returns {Promise<LookLike>} */
  async function dropped({ model, input, changes }, error, signal) {
    if (isAbort(error) || !changes.length) throw error;
    const plain = await source.open({ model, input, changes: [] }, signal);
    const kept = changes.filter((change) => fitsLook(plain, change));
    if (kept.length === changes.length && store.state.look) throw error;
    const rest = kept.length === changes.length ? [] : kept;
    const lost = plural(changes.length - rest.length, 'change');
    store.set({ changes: rest, notice: `Removed ${lost} that this input cannot have: ${words(error)}` });
    throw new DOMException('A look with fewer changes follows', 'AbortError');
  }

  store.watch(['model', 'input', 'changes'], ({ model, input, changes }) => {
    if (!model || !input) return;
    abort?.abort();
    abort = new AbortController();
    store.state.look?.leave(); // nobody waits for the numbers of the old one any more
    if (isBlank(input)) return store.set({ busy: false, blank: true, error: '', notice: 'Enter something to look at.', ...stayed() });
    store.set({ busy: true });
    /** @param {AbortSignal} signal */
    const open = async (signal) => {
      const asked = { model, input, changes };
      const look = await source.open(asked, signal).catch((error) => dropped(asked, error, signal));
      const untouched = store.state.site === null && firstSite(look, timeOf(look.document, store.state.time?.index));
      if (untouched) return { look, first: await firstCell(look, untouched) };
      return { look, first: store.state.choose ? await nextCell(store.state, look) : {} };
    };
    /** @param {{ look: LookLike, first: Partial<State> }} facts */
    const use = ({ look: found, first }) => {
      if (store.state.input !== input) return;
      const look = found === store.state.look ? found.again() : found; // it was left a moment ago
      const shown = { look, ...fitted({ ...store.state, ...first }, look), choose: false, blank: false };
      store.set({ ...shown, busy: false, error: '', notice: store.state.blank ? '' : store.state.notice, hover: null });
    };
    lookTask(open(abort.signal), use, failed);
  });

  store.watch(['look', 'site', 'head'], (state) => {
    const { look, head } = state;
    const site = look?.sites.get(state.site);
    if (!look || !site) return;
    const { head: own, query, key } = fitted(state, look);
    if (!state.busy) store.set({ head: own, query, key }); // else they may be of the look to come
    if (own !== head) return; // this watcher runs again with the head that exists
    /** @param {SheetLike} sheet */
    const use = (sheet) => {
      sheet.onArrival = arrival;
      store.set({ sheet: { look, site: site.name, head, sheet } });
    };
    sheetTask(look.sheet(site.name, head), use, report);
  });

  store.watch(['model', 'input', 'changes', 'other', 'view'], ({ model, input, changes, other, view }) => {
    store.set({ second: null }); // it was looked at with other words
    if (!other || view !== 'compare' || !input || isBlank(input)) return;
    compareAbort?.abort();
    compareAbort = new AbortController();
    const first = { model, input, changes };
    /** @param {Omit<Second, 'other'>} second */
    const use = (second) => store.set({ second: { ...second, other }, error: '' });
    compareTask(source.compare(first, { ...first, ...other }, compareAbort.signal), use, (error) => {
      store.set({ other: null, error: words(error) });
    });
  });

  store.watch(['look', 'second', 'withSite', 'withHead', 'view', 'site', 'head'], (state) => {
    if (state.view !== 'compare' || !state.look) return;
    const look = state.other ? state.second?.look : state.look;
    const other = state.other && state.second?.other; // whose it is: a newer one may be on its way
    const pair = state.other ? partner(state) : { site: state.withSite, head: state.withHead };
    const site = look?.sites.get(pair?.site);
    if (!look || !pair || !site) return store.set({ secondSheet: null });
    const shown = { look, other, site: site.name, head: pair.head };
    /** @param {SheetLike} sheet */
    const use = (sheet) => {
      sheet.onArrival = arrival;
      store.set({ secondSheet: { ...shown, sheet } });
    };
    secondTask(look.sheet(site.name, pair.head), use, report);
  });

  store.watch(['look', 'site', 'head', 'query', 'key'], ({ look, site, head, query, key }) => {
    clearTimeout(timer);
    if (!look || !site || !look.sites.has(site) || head === 'mean') return;
    const [rows, columns] = look.shape(site);
    if (query >= rows || key >= columns) return;
    /** @param {CellNumbers} numbers */
    const use = (numbers) => store.set({ cell: { look, site, head, query, key, numbers } });
    timer = setTimeout(() => cellTask(look.cell(site, head, query, key), use, report), store.state.cell ? 40 : 0);
  });
}

/** The map of the other model that stands for ours: the one that the server matched, else the one of that name.
    @param {State} facts */
function partner({ site, head, second }) {
  if (!second) return null;
  const match = second.sites.find((one) => one.first === site);
  const name = match?.second ?? site;
  if (!second.look.sites.has(name)) return null;
  if (head === 'mean') return { site: name, head };
  const { heads } = second.look.at(name);
  return { site: name, head: match?.heads.find((one) => one.first === head)?.second ?? Math.min(head, heads - 1) };
}

/** @type {{ first?: SheetLike, second?: SheetLike, sheet?: SheetLike }} */
let lastPair = {}; // so that hovering does not subtract again

/** Why the two maps in force have no difference; empty where they have one, or where one is still to come.
    @param {State} facts */
export function apartWords({ sheet, secondSheet }) {
  if (!sheet || !secondSheet) return '';
  const [first, second] = [sheet, secondSheet].map(({ look, site }) => ({ look, site: look.at(site) }));
  return whyApart(first, second);
}

/** The difference of the two maps in force, where both are over the same words; else null. @param {State} state */
export function differenceOf(state) {
  const [first, second] = [state.sheet?.sheet, state.secondSheet?.sheet];
  if (!first || !second || apartWords(state)) return null;
  const known = lastPair.first === first && lastPair.second === second ? lastPair.sheet : null;
  const sheet = known ?? differenceSheet(first, second);
  lastPair = { first, second, sheet };
  sheet.onArrival = first.onArrival;
  return sheet;
}
