// The view in the address: #model=tatoeba-en-de&text=She+has...&site=decoder.1.cross&head=1&view=map&row=3&column=2 ...

import { moduleOf } from './axes.js';
import { clamp } from './dom.js';
import { FINDINGS } from './findings.js';
import { mediumOf } from './media/index.js';
import { INITIAL } from './store.js';

const VIEWS = ['map', 'lines', 'compare'];
/** What of an address is the view; all else is what was given, in the words of its medium. */
const OWN_WORDS = ['model', 'site', 'head', 'view', 'row', 'column', 'with', 'other', 'changes', 'scale', 'tab', 'time'];

/** t.source.3~h.blocks.1.mixer.2~T.*.0.50: a temperature has exactly one point in it, so that sites may have numbers.
    @param {Change[]} changes */
export function writeChanges(changes) {
  /** @param {Change} change */
  const one = (change) => {
    if (change.kind === 'token') return `t.${change.axis}.${change.position}`;
    if (change.kind === 'head') return `h.${change.site}.${change.head}`;
    return `T.${change.site}.${change.value.toFixed(2)}`;
  };
  return changes.map(one).join('~');
}

/** @param {string} text */
export function readChanges(text) {
  return text.split('~').flatMap((/** @returns {Change[]} */ (part) => {
    const token = part.match(/^t\.(.+)\.(\d+)$/);
    if (token) return [{ kind: 'token', axis: token[1], position: Number(token[2]) }];
    const head = part.match(/^h\.(.+)\.(\d+)$/);
    if (head) return [{ kind: 'head', site: moduleOf(head[1]), head: Number(head[2]), factor: 0 }];
    const heat = part.match(/^T\.(.+)\.(\d+\.\d+)$/);
    if (heat) return [{ kind: 'temperature', site: moduleOf(heat[1]), value: clamp(Number(heat[2]), 0.05, 20) }];
    return [];
  }));
}

/** Whether the address can hold what was given. @param {Input} input */
export const fitsAddress = (input) => mediumOf(input).address(input) !== null;

/** @param {State} state */
export function writeHash(state) {
  const { input, view } = state;
  const pairs = new URLSearchParams();
  if (state.model) pairs.set('model', state.model);
  const given = input && mediumOf(input).address(input);
  for (const [name, words] of Object.entries(given ?? {})) pairs.set(name, words);
  if (state.site) pairs.set('site', state.site);
  pairs.set('head', String(state.head));
  pairs.set('view', view);
  pairs.set('row', String(state.query));
  pairs.set('column', String(state.key));
  if (view === 'compare' && state.withSite) pairs.set('with', `${state.withSite}:${state.withHead}`);
  if (view === 'compare' && state.other) pairs.set('other', Object.entries(state.other)[0].join(':'));
  if (state.time) pairs.set('time', String(state.time.index));
  if (state.changes.length) pairs.set('changes', writeChanges(state.changes));
  if (state.contrast !== 'root') pairs.set('scale', state.contrast);
  if (state.tab !== INITIAL.tab) pairs.set('tab', state.tab);
  return `#${pairs}`;
}

const BODY = '<body class="regard page">';

/** A saved page that opens on this view. @param {Blob} page @param {State} state */
export async function withView(page, state) {
  const view = writeHash({ ...state, input: null, changes: [] }).replaceAll('&', '&amp;'); // both are in the page
  const text = await page.text();
  return new Blob([text.replace(BODY, () => `${BODY.slice(0, -1)} data-view="${view}">`)], { type: 'text/html' });
}

/** What a saved page opens on; another model is not in it. */
export function savedView({ view = '' }) {
  const { patch } = readHash(view);
  const saved = patch.other ? { ...patch, view: 'map' } : patch;
  delete saved.model;
  delete saved.other;
  return saved;
}

/** @param {string | null | undefined} text */
const headFrom = (text) => (text === 'mean' ? 'mean' : /^\d+$/.test(text ?? '') ? Number(text) : null);

/** A patch of the state; what is malformed is left out, what does not exist is mended when the look is here.
    @param {string} hash */
export function readHash(hash) {
  const given = new URLSearchParams(hash.replace(/^#/, ''));
  /** @type {Partial<State>} */
  const patch = {};
  /** @param {string} name @param {unknown} value */
  const put = (name, value) => {
    if (value !== null && value !== undefined) Object.assign(patch, { [name]: value });
  };
  /** @param {string} name */
  const whole = (name) => (/^\d+$/.test(given.get(name) ?? '') ? Number(given.get(name)) : null);
  put('model', given.get('model'));
  put('site', given.get('site'));
  put('head', headFrom(given.get('head')));
  put('query', whole('row'));
  put('key', whole('column'));
  put('view', VIEWS.includes(given.get('view') ?? '') ? given.get('view') : null);
  put('contrast', ['root', 'linear'].includes(given.get('scale') ?? '') ? given.get('scale') : null);
  put('tab', Object.hasOwn(FINDINGS, given.get('tab') ?? '') ? given.get('tab') : null);
  put('changes', given.has('changes') ? readChanges(given.get('changes') ?? '') : null);
  const second = given.get('with')?.match(/^(.+):(mean|\d+)$/);
  if (second) Object.assign(patch, { withSite: second[1], withHead: headFrom(second[2]) });
  const other = given.get('other')?.match(/^(model|attention):(.+)$/);
  if (other) patch.other = { [other[1]]: other[2] };
  put('time', whole('time') === null ? null : { unit: '', count: 0, index: whole('time') }); // the look tells the rest
  return { patch, given: Object.fromEntries([...given].filter(([name]) => !OWN_WORDS.includes(name))) };
}

/** What of the state the address holds. @type {(keyof State)[]} */
export const HELD = [
  'model',
  'input',
  'changes',
  'site',
  'head',
  'view',
  'query',
  'key',
  'withSite',
  'withHead',
  'other',
  'contrast',
  'tab',
  'time',
];

/** What an address is about: another model, another input or another change is a step that the browser can go back from.
    A temperature that is turned further is the same one. @param {string} hash */
function shownIn(hash) {
  const { patch, given } = readHash(hash);
  const changes = (patch.changes ?? []).map((one) => (one.kind === 'temperature' ? { ...one, value: 0 } : one));
  return JSON.stringify([patch.model, given, changes]);
}

/** Whether the look that was asked for has come. @param {State} facts */
function isShown({ look, model, input, changes }) {
  if (!look || look.request.model !== model || writeChanges(look.request.changes) !== writeChanges(changes)) return false;
  return look.request.input === input || JSON.stringify(look.request.input) === JSON.stringify(input);
}

/** Keep the address as the view is; `restore` is called when the reader changes it by hand or goes back.
    @param {Store} store @param {() => void} restore */
export function keepHash(store, restore) {
  /** @type {string | null} */
  let own = null; // what stands there by our hand; null where the reader put it there
  let draft = 0;
  let timer = 0;
  const write = () => {
    const { state } = store;
    if (!isShown(state)) return; // what cannot be looked at does not become a step
    const next = writeHash(state);
    const other = own !== null && shownIn(next) !== shownIn(own);
    const step = other && !(state.draft && state.draft === draft); // a text that goes on is one step
    if (other) draft = state.draft;
    own = next;
    if (step) history.pushState(null, '', own);
    else history.replaceState(null, '', own);
  };
  store.watch(
    [...HELD, 'look'],
    () => {
      clearTimeout(timer); // browsers refuse an address that changes a hundred times in ten seconds
      timer = setTimeout(write, 120);
    },
    { now: false },
  );
  addEventListener('hashchange', () => {
    if (!location.hash.includes('=') || location.hash === own) return;
    clearTimeout(timer);
    own = null;
    restore();
  });
}
