// Change something and look again: cross out a token, switch a head off, turn the temperature.
// A saved page has no model: there only the temperature works, map by map, and the rest says why it waits.

import { isGrid, labelOf, moduleOf, siteName, wordsFor } from './axes.js';
import { changedAnswer } from './answer.js';
import { heatOf } from './working.js';
import { button, element, fresh, plural } from './dom.js';
import { temperatureOf } from './numeric.js';
import { siteOf } from './store.js';

const REASON =
  'Masking a token or switching off a head changes all later layers, so it needs the model: open the same view with regard serve.';
const MANY_CHIPS = 80;

export const MOST_CHANGES = 32; // that the server takes at once

/** Whatever was chosen to be changed; too much of it is refused here, in words.
    @param {Store} store @param {Change[]} changes */
export function alter(store, changes) {
  const fits = changes.length <= MOST_CHANGES || changes.length < store.state.changes.length;
  store.set(fits ? { changes } : { error: `At most ${MOST_CHANGES} changes are possible at once. Undo some first.` });
}

/** The list with one change put in, or taken out where it was there.
    @param {Change[]} changes @param {Change} change */
export function toggled(changes, change) {
  const rest = changes.filter((one) => !sameChange(one, change));
  return rest.length < changes.length ? rest : [...changes, change];
}

/** What a change is about, whatever it makes of it. @param {Change} change */
function subjectOf(change) {
  if (change.kind === 'token') return `token ${change.axis} ${change.position}`;
  return change.kind === 'head' ? `head ${change.site} ${change.head}` : `temperature ${change.site}`;
}

/** @param {Change} first @param {Change} second */
const sameChange = (first, second) => subjectOf(first) === subjectOf(second);

/** One temperature for all sites: what was set before goes. 
    @param {Change[]} changes @param {number} value @returns {Change[]} */
export function heated(changes, value) {
  const rest = changes.filter((one) => one.kind !== 'temperature');
  return value === 1 ? rest : [...rest, { kind: 'temperature', site: '*', value }];
}

/** @param {Store} store @param {Source} source */
export function interveneStrip(store, source) {
  const live = source.can.intervene;
  const tokens = element('div', { class: 'chips', role: 'group', 'aria-label': 'Mask tokens' });
  const value = element('output', {});
  const slider = element('input', {
    id: fresh('temperature'),
    type: 'range',
    min: -2,
    max: 2,
    step: 0.25,
    onInput: () => warm(Number(slider.value)),
  });
  const undo = button('plain', 'Undo all', () => store.set({ changes: [] }));
  const reason = element('p', { class: 'waits', hidden: live }, REASON);
  const head = button('switch', '', () => siteOf(store.state) && switchHead(), { role: 'switch' });
  const told = element('p', { class: 'readout', role: 'status' });
  const pictureNote = element('p', { class: 'hint' });
  let timer = 0;

  /** @param {number} octaves */
  function warm(octaves) {
    const heat = temperatureOf(octaves);
    value.textContent = heat.toFixed(2);
    clearTimeout(timer); // a slider speaks often; the model hears the last word
    timer = setTimeout(() => alter(store, heated(store.state.changes, heat)), live ? 90 : 0);
  }

  function switchHead() {
    const { head: which, changes } = store.state;
    const own = siteOf(store.state);
    if (!own) return;
    const site = moduleOf(own.name); // a change is about the module, in all of its calls
    const count = own.heads;
    const heads = which === 'mean' ? Array.from({ length: count }, (_, one) => one) : [which];
    const off = isOff(store.state);
    const others = changes.filter((one) => one.kind !== 'head' || one.site !== site || !heads.includes(one.head));
    /** @type {Change[]} */
    const silenced = heads.map((one) => ({ kind: 'head', site, head: one, factor: 0 }));
    alter(store, off ? others : [...others, ...silenced]);
  }

  /** @param {State} facts */
  const isOff = ({ changes, site, head: which }) =>
    changes.some(
      (one) => one.kind === 'head' && one.site === moduleOf(site ?? '') && (which === 'mean' || one.head === which),
    );

  /** @param {string} axisName @param {Axis} axis @param {number} index */
  function chip(axisName, axis, index) {
    /** @type {Change} */
    const change = { kind: 'token', axis: axisName, position: index };
    const out = store.state.changes.some((one) => sameChange(one, change));
    return button(
      'chip',
      labelOf(axis, index),
      () => alter(store, toggled(store.state.changes, change)),
      {
        'aria-label': `mask ${wordsFor(axis, index)}`,
        'aria-pressed': out,
      },
    );
  }

  /** Chips for a sentence; of a picture or a long text those around the chosen key. @param {State} state */
  function draw(state) {
    const site = siteOf(state);
    if (!site) return;
    const axis = site.columnAxis;
    const spread = axis.size > MANY_CHIPS || isGrid(axis);
    const near = spread
      ? [...new Set([state.key, ...crossedOn(state, site.columns)])]
      : Array.from({ length: axis.size }, (_, index) => index);
    const focus = [...tokens.children].findIndex((one) => one === document.activeElement);
    tokens.replaceChildren(
      ...near.filter((index) => index < axis.size).map((index) => chip(site.columns, axis, index)),
    );
    /** @type {HTMLElement | undefined} */ (tokens.children[focus])?.focus();
    pictureNote.textContent = spread
      ? 'The selected key and the masked tokens. Select another key in the map.'
      : `No head attends to a masked token (${site.columns}).`;
    const off = isOff(state);
    head.setAttribute('aria-checked', String(!off));
    head.textContent = `${siteName({ ...site, name: moduleOf(site.name) })}, ${state.head === 'mean' ? 'all heads' : `head ${state.head}`} ${off ? 'off' : 'on'}`;
    const heat = heatOf(state.changes, site.name);
    slider.value = String(Math.log2(heat));
    slider.setAttribute('aria-valuetext', `temperature ${heat.toFixed(2)}`);
    value.textContent = heat.toFixed(2);
    undo.disabled = state.changes.length === 0;
    const before = live ? 0 : (state.look?.document.changes.length ?? 0) - state.changes.length;
    told.textContent =
      state.changes.length === 0
        ? before
          ? `Saved with ${plural(before, 'change')}.`
          : 'No changes.'
        : live
          ? `${plural(state.changes.length, 'change')}.`
          : 'Each map is recomputed on its own; later layers are not updated.';
  }

  /** @param {State} facts @param {string} axis */
  const crossedOn = ({ changes }, axis) =>
    changes.flatMap((one) => (one.kind === 'token' && one.axis === axis ? [one.position] : []));

  store.watch(['look', 'site', 'head', 'changes', 'key'], draw);
  /** @param {string} title @param {Child} note @param {...Child} rest */
  const field = (title, note, ...rest) => element('div', { class: 'field' }, element('h3', {}, title), note, rest);
  /** @param {string} words */
  const hint = (words) => element('p', { class: 'hint' }, words);
  return element(
    'section',
    { class: 'card intervene', 'aria-label': 'Intervene' },
    element(
      'header',
      { class: 'split' },
      element('div', {}, element('h2', {}, 'Intervene'), hint('Change the forward pass and compare the answers.')),
      undo,
    ),
    element(
      'div',
      { class: 'fields' },
      live ? field('Mask a token', pictureNote, tokens) : null,
      live ? field('Switch off a head', hint('Sets its output to zero.'), head) : null,
      field(
        'Temperature',
        hint('Of every softmax: sharper to the left, flatter to the right.'),
        element(
          'div',
          { class: 'row slider' },
          element('label', { for: slider.id, class: 'unseen' }, 'Temperature'),
          slider,
          value,
        ),
      ),
    ),
    told,
    changedAnswer(store),
    reason,
  );
}
