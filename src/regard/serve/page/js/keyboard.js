// One-letter keys for everything, a list of them, and a switch to turn them off (WCAG 2.1.4).

import { button, element } from './dom.js';
import { heatOf } from './working.js';
import { alter, heated, toggled } from './intervene.js';
import { temperatureOf } from './numeric.js';
import { siteOf, turn } from './store.js';
import { moved } from './time.js';

const KEYS_LIST = [
  ['/', 'edit the text'],
  ['o', 'choose a model'],
  ['[  ]', 'previous, next layer'],
  [',  .', 'previous, next head'],
  ['a', 'mean of heads'],
  ['m  l  c', 'view: map, lines, compare'],
  ['q  w', 'previous, next query'],
  ['b  f', 'previous, next time step, if there are several'],
  ['arrows', 'move in the grid, the map, the tokens, the image'],
  ['Enter', 'in the map: show how the weight is computed'],
  ['+  −  0', 'in a large map: zoom in, out, reset'],
  ['s', 'square root or linear colour scale'],
  ['1 … 8', 'analyses: rollout, flow, distance, spectrum, occlusion, gradient, importance, lens'],
  ['z', 'mask or unmask the selected key'],
  ['h', 'switch the head off or on'],
  ['−  =', 'temperature down, up'],
  ['0', 'undo all changes'],
  ['u', 'copy link'],
  ['p', 'copy as Python'],
  ['x', 'save SVG'],
  ['t', 'start the tour'],
  ['n', 'light or dark mode'],
  ['?', 'show this list'],
  ['Esc', 'close'],
];

/** @param {Store} store @param {KeyboardFacts} given */
export function keyboard(store, { page, tour, toggleTheme, tabs }) {
  let active = true;
  const list = element(
    'dl',
    {},
    KEYS_LIST.flatMap(([keys, text]) => [
      element(
        'dt',
        {},
        keys.split('  ').map((key) => element('kbd', {}, key)),
      ),
      element('dd', {}, text),
    ]),
  );
  const check = element('input', { type: 'checkbox', checked: true, onChange: () => (active = check.checked) });
  /** @type {HTMLDialogElement} */
  const dialog = element(
    'dialog',
    { class: 'sheet keys', 'aria-labelledby': 'keys-title' },
    element(
      'header',
      {},
      element('h2', { id: 'keys-title' }, 'Keyboard shortcuts'),
      button('plain', 'Close', () => dialog.close()),
    ),
    list,
    element('label', { class: 'row' }, check, 'single-letter shortcuts enabled'),
  );

  /** @param {string} selector */
  const press = (selector) => /** @type {HTMLElement | null} */ (page.querySelector(selector))?.click();
  /** @param {number} by */
  const warm = (by) => {
    const { changes, site } = store.state;
    if (site) alter(store, heated(changes, temperatureOf(Math.log2(heatOf(changes, site)) + by)));
  };
  const cross = () => {
    const site = siteOf(store.state);
    if (!site) return;
    alter(store, toggled(store.state.changes, { kind: 'token', axis: site.columns, position: store.state.key }));
  };

  /** @type {Record<string, () => unknown>} */
  const actions = {
    '/': () => /** @type {HTMLElement | null} */ (page.querySelector('#sentence'))?.focus(),
    o: () => press('.picker-open'),
    '[': () => turn(store, 'site', -1),
    ']': () => turn(store, 'site', 1),
    ',': () => turn(store, 'head', -1),
    '.': () => turn(store, 'head', 1),
    a: () => store.set({ head: store.state.head === 'mean' ? 0 : 'mean' }),
    m: () => store.set({ view: 'map' }),
    l: () => store.set({ view: 'lines' }),
    c: () => store.set({ view: 'compare' }),
    q: () => turn(store, 'query', -1),
    w: () => turn(store, 'query', 1),
    b: () => store.set(moved(store.state, -1)),
    f: () => store.set(moved(store.state, 1)),
    s: () => store.set({ contrast: store.state.contrast === 'root' ? 'linear' : 'root' }),
    z: cross,
    h: () => press('.intervene .switch'),
    '-': () => warm(-0.25),
    '=': () => warm(0.25),
    0: () => store.set({ changes: [] }),
    u: () => press('[data-action=link]'),
    p: () => press('[data-action=python]'),
    x: () => press('[data-action=svg]'),
    t: () => tour.start(),
    n: toggleTheme,
    '?': () => dialog.showModal(),
    ...Object.fromEntries(tabs.map(([name], index) => [index + 1, () => store.set({ tab: name })])),
  };

  document.addEventListener('keydown', (event) => {
    const typing = event.target instanceof Element && event.target.closest('input:not([type=range], [type=checkbox]), textarea, select, dialog');
    if (event.key === 'Escape' && tour.running()) return tour.stop();
    if (!active || typing || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
  return { dialog, open: () => dialog.showModal() };
}
