// The view in the address: #model=tatoeba-en-de&text=She+has...&site=decoder.1.cross&head=1&view=map&row=3&column=2 ...

import { moduleOf, pictureOf, writtenOf } from './axes.js';
import { clamp, element } from './dom.js';
import { FINDINGS } from './findings.js';
import { INITIAL } from './store.js';

const VIEWS = ['map', 'lines', 'compare'];
const SHORT = 6000; // letters; a longer picture does not go into an address

/** t.source.3~h.blocks.1.mixer.2~T.*.0.50: a temperature has exactly one point in it, so that sites may have numbers. */
export function writeChanges(changes) {
  const one = (change) => {
    if (change.kind === 'token') return `t.${change.axis}.${change.position}`;
    if (change.kind === 'head') return `h.${change.site}.${change.head}`;
    return `T.${change.site}.${change.value.toFixed(2)}`;
  };
  return changes.map(one).join('~');
}

export function readChanges(text) {
  return text.split('~').flatMap((part) => {
    const token = part.match(/^t\.(.+)\.(\d+)$/);
    if (token) return [{ kind: 'token', axis: token[1], position: Number(token[2]) }];
    const head = part.match(/^h\.(.+)\.(\d+)$/);
    if (head) return [{ kind: 'head', site: moduleOf(head[1]), head: Number(head[2]), factor: 0 }];
    const heat = part.match(/^T\.(.+)\.(\d+\.\d+)$/);
    if (heat) return [{ kind: 'temperature', site: moduleOf(heat[1]), value: clamp(Number(heat[2]), 0.05, 20) }];
    return [];
  });
}

export const fitsAddress = (input) => (pictureOf(input)?.png.length ?? 0) < SHORT;

export function writeHash(state) {
  const { input, view } = state;
  const pairs = new URLSearchParams();
  if (state.model) pairs.set('model', state.model);
  if (input && writtenOf(input)) pairs.set('text', writtenOf(input));
  const picture = input && pictureOf(input);
  if (picture && fitsAddress(input)) pairs.set('png', picture.png);
  if (state.site) pairs.set('site', state.site);
  pairs.set('head', state.head);
  pairs.set('view', view);
  pairs.set('row', state.query);
  pairs.set('column', state.key);
  if (view === 'compare' && state.withSite) pairs.set('with', `${state.withSite}:${state.withHead}`);
  if (view === 'compare' && state.other) pairs.set('other', Object.entries(state.other)[0].join(':'));
  if (state.changes.length) pairs.set('changes', writeChanges(state.changes));
  if (state.contrast !== 'root') pairs.set('scale', state.contrast);
  if (state.tab !== INITIAL.tab) pairs.set('tab', state.tab);
  return `#${pairs}`;
}

const BODY = '<body class="regard page">';

/** A saved page that opens on this view. */
export async function withView(page, state) {
  const view = writeHash({ ...state, input: null, changes: [] }).replaceAll('&', '&amp;'); // both are in the page
  const text = await page.text();
  return new Blob([text.replace(BODY, () => `${BODY.slice(0, -1)} data-view="${view}">`)], { type: 'text/html' });
}

/** What a saved page opens on; another model is not in it. */
export function savedView({ view = '' }) {
  const { patch } = readHash(view);
  const { model, other, ...rest } = patch;
  return other ? { ...rest, view: 'map' } : rest;
}

const headFrom = (text) => (text === 'mean' ? 'mean' : /^\d+$/.test(text ?? '') ? Number(text) : null);

/** A patch of the state; what is malformed is left out, what does not exist is mended when the look is here. */
export function readHash(hash) {
  const given = new URLSearchParams(hash.replace(/^#/, ''));
  const patch = {};
  const put = (name, value) => {
    if (value !== null && value !== undefined) patch[name] = value;
  };
  const whole = (name) => (/^\d+$/.test(given.get(name) ?? '') ? Number(given.get(name)) : null);
  put('model', given.get('model'));
  put('site', given.get('site'));
  put('head', headFrom(given.get('head')));
  put('query', whole('row'));
  put('key', whole('column'));
  put('view', VIEWS.includes(given.get('view')) ? given.get('view') : null);
  put('contrast', ['root', 'linear'].includes(given.get('scale')) ? given.get('scale') : null);
  put('tab', Object.hasOwn(FINDINGS, given.get('tab') ?? '') ? given.get('tab') : null);
  put('changes', given.has('changes') ? readChanges(given.get('changes')) : null);
  const second = given.get('with')?.match(/^(.+):(mean|\d+)$/);
  if (second) Object.assign(patch, { withSite: second[1], withHead: headFrom(second[2]) });
  const other = given.get('other')?.match(/^(model|attention):(.+)$/);
  if (other) patch.other = { [other[1]]: other[2] };
  const png = given.get('png');
  return { patch, text: given.get('text'), png: png?.startsWith('data:image/') ? png : null };
}

/** What a model is shown first: its own example, or something of the kind that it takes. */
export function exampleOf(model) {
  if (model.example) return model.example;
  if (model.takes === 'text') return { kind: 'text', text: 'A short text to begin with.' };
  if (model.takes === 'pair') return { kind: 'pair', source: 'Where are my keys?' };
  const png = element('canvas', { width: 28, height: 28 }).toDataURL('image/png');
  return model.takes === 'image' ? { kind: 'image', png } : { kind: 'caption', image: { kind: 'image', png } };
}

/** The input that an address means for a model: in the form of the model's own example. */
export function inputFrom(example, text, png) {
  if (!example) return null;
  if (example.kind === 'image') return png ? { kind: 'image', png } : example;
  if (example.kind === 'caption') return png ? { ...example, image: { kind: 'image', png } } : example;
  if (!text) return example;
  return example.kind === 'pair' ? { kind: 'pair', source: text } : { kind: 'text', text };
}

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
];

/** What an address is about: another model, or another input, is a step that the browser can go back from. */
function shownIn(hash) {
  const given = new URLSearchParams(hash.slice(1));
  return JSON.stringify(['model', 'text', 'png'].map((name) => given.get(name)));
}

/** Whether the look that was asked for has come. */
function isShown({ look, model, input }) {
  if (!look || look.request.model !== model) return false;
  return look.request.input === input || JSON.stringify(look.request.input) === JSON.stringify(input);
}

/** Keep the address as the view is; `restore` is called when the reader changes it by hand or goes back. */
export function keepHash(store, restore) {
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
