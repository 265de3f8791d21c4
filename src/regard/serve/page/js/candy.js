// AlphaCandy: click a candy, it becomes the query; see which others it looks at, and what colour comes out.

import { CANDIES, candyAttention, HEADS, JAR } from './candies.js';
import { button, choices, element, fresh, largest, number, percent, tableBehind } from './dom.js';
import { temperatureOf } from './numeric.js';

/** @param {number[]} facts */
const css = ([lightness, a, b]) => `oklab(${lightness.toFixed(4)} ${a.toFixed(4)} ${b.toFixed(4)})`;
/** @param {number} index */
const nameOf = (index) => `${CANDIES[index].name} ${CANDIES[index].row}, ${CANDIES[index].column}`;

export function candyCorner() {
  /** @type {CandyState} */
  const state = { query: 2, head: 'colour', temperature: 1, masked: new Set(), causal: false, hiding: false };
  const swatch = element('span', { class: 'swatch', role: 'img' });
  const told = element('p', { class: 'readout', role: 'status' });
  const rowBars = element('div', { class: 'softmax candy-bars', 'aria-hidden': 'true' });
  const heat = element('input', {
    id: fresh('candy'),
    type: 'range',
    min: -2,
    max: 2,
    step: 0.25,
    value: 0,
    'aria-label': 'Temperature',
    onInput: () => set({ temperature: temperatureOf(Number(heat.value)) }),
  });
  const shownHeat = element('output', {});
  const heads = choices(
    'Head',
    Object.keys(HEADS).map((name) => [name, name]),
    (head) => set({ head }),
  );
  const hide = button('toggle', 'mask candies', () => set({ hiding: !state.hiding }), {
    title: 'A click masks a candy instead of selecting it as the query',
  });
  const causal = button('toggle', 'causal mask', () => set({ causal: !state.causal }));
  const clear = button('plain', 'Unmask all', () => set({ masked: new Set(), causal: false }));
  /** @type {ReturnType<typeof candyAttention>} */
  let numbers = candyAttention(state);

  const candies = CANDIES.map((candy, index) => {
    const node = button('candy', null, () => press(index), { style: `--candy: ${css(candy.colour)}` });
    node.append(element('span', { class: 'candy-weight', 'aria-hidden': 'true' }));
    return node;
  });
  const jar = element(
    'div',
    { class: 'jar', role: 'group', 'aria-label': 'Candies', style: `--columns: ${JAR.columns}` },
    candies,
  );
  const table = tableBehind('Table of all candies', () => ({
    caption: `Query ${nameOf(state.query)}, head ${state.head}, temperature ${state.temperature}`,
    columns: ['candy', 'score', 'weight'],
    rows: CANDIES.map((_, index) => [
      nameOf(index),
      numbers.scores[index] === null ? 'masked' : number(numbers.scores[index]),
      percent(numbers.weights[index], 4),
    ]),
  }));

  /** @param {number} index */
  function press(index) {
    if (!state.hiding) return set({ query: index });
    const masked = new Set(state.masked);
    if (!masked.delete(index)) masked.add(index);
    if (masked.size < CANDIES.length) set({ masked }); // somebody must be left to look at
  }

  /** @param {Partial<CandyState>} patch */
  function set(patch) {
    Object.assign(state, patch);
    numbers = candyAttention(state);
    const most = largest(numbers.weights);
    candies.forEach((node, index) => {
      const hidden = numbers.scores[index] === null;
      node.style.setProperty('--weight', String(numbers.weights[index]));
      const share = Math.round(100 * numbers.weights[index]);
      if (node.lastChild) node.lastChild.textContent = share >= 5 ? String(share) : '';
      node.toggleAttribute('data-query', index === state.query);
      node.toggleAttribute('data-hidden', hidden);
      node.setAttribute('aria-pressed', String(index === state.query));
      node.setAttribute('aria-label', `${nameOf(index)}, ${hidden ? 'masked' : percent(numbers.weights[index], 0)}`);
      node.tabIndex = index === state.query ? 0 : -1;
    });
    rowBars.replaceChildren(
      ...numbers.weights.map((weight, index) =>
        element('span', {
          title: `${nameOf(index)} ${percent(weight)}`,
          style: `--weight: ${weight / numbers.weights[most]}; background: ${css(CANDIES[index].colour)}`,
        }),
      ),
    );
    swatch.style.background = css(numbers.colour);
    swatch.setAttribute('aria-label', `mean colour ${css(numbers.colour)}`);
    told.replaceChildren(
      element('b', {}, nameOf(state.query)),
      ` attends most to ${nameOf(most)}: ${percent(numbers.weights[most])}.`,
    );
    shownHeat.textContent = state.temperature.toFixed(2);
    heads.choose(state.head);
    hide.setAttribute('aria-pressed', String(state.hiding));
    causal.setAttribute('aria-pressed', String(state.causal));
    clear.disabled = state.masked.size === 0 && !state.causal;
    Object.assign(root, { numbers }); // for whoever wants to check them against the library
    table.refresh();
  }

  jar.addEventListener('keydown', (event) => {
    /** @type {Record<string, number>} */
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: JAR.columns, ArrowUp: -JAR.columns };
    const step = steps[event.key];
    const here = candies.findIndex((one) => one === event.target);
    if (!step || here < 0) return;
    event.preventDefault();
    const next = candies[here + step];
    if (!next) return;
    next.focus();
    if (!state.hiding) next.click();
  });

  const root = element(
    'section',
    { class: 'card candy-corner', 'aria-label': 'AlphaCandy' },
    element(
      'header',
      {},
      element('h2', {}, 'AlphaCandy'),
      element(
        'p',
        { class: 'hint' },
        'Candies are tokens. Click one to make it the query: the others are keys, and the output is the weighted mean of their colours.',
      ),
    ),
    element(
      'div',
      { class: 'candy-body' },
      jar,
      element(
        'div',
        { class: 'candy-side' },
        element('div', { class: 'row' }, heads.root),
        element(
          'div',
          { class: 'row slider' },
          element('label', { for: heat.id, class: 'slider-name' }, 'temperature'),
          heat,
          shownHeat,
        ),
        element('div', { class: 'row' }, hide, causal, clear),
        rowBars,
        element('div', { class: 'row' }, swatch, element('span', { class: 'hint' }, 'output')),
        told,
        table.root,
      ),
    ),
  );
  set({});
  return root;
}
