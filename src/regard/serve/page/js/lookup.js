// The soft look-up: a query moves between two keys, and the answer moves between their values.

import { element, fresh, number, percent, shape, tableBehind } from './dom.js';
import { scoresOf, softmax, temperatureOf, weightedSum } from './numeric.js';

const KEYS = [
  [1, 0],
  [0, 1],
]; // at right angles, both of length 1
const VALUES = [10, 50];
const REACH = 2; // the query is longer than the keys, so that a choice can be clear

/** All numbers of the demonstration, for a place from 0 (the first key) to 1 (the second).
    @param {number} place @param {number} temperature */
export function softLookup(place, temperature) {
  const angle = (place * Math.PI) / 2;
  const query = [REACH * Math.cos(angle), REACH * Math.sin(angle)];
  const scores = scoresOf(query, KEYS.flat(), 1 / Math.SQRT2).map((score) => score / temperature);
  const { weights } = softmax(scores);
  return { query, scores, weights, result: weightedSum(weights, VALUES, 1)[0] };
}

function picture() {
  const [middle, radius] = [24, 150];
  /** @param {number[]} facts */
  const tip = ([x, y], length = 1) => [middle + x * radius * length * 0.5, 190 - y * radius * length * 0.5];
  /** @param {string} look @param {number[]} at */
  const arrow = (look, at) => shape('line', { class: `arrow ${look}`, x1: middle, y1: 190, x2: at[0], y2: at[1] });
  const query = arrow('query', tip([1, 0], REACH));
  const name = shape('text', { class: 'query' }, 'q');
  const svg = shape(
    'svg',
    { class: 'compass', viewBox: '0 0 200 206', 'aria-hidden': 'true' },
    shape('path', { class: 'arc', d: `M${tip([1, 0], REACH)}A${radius} ${radius} 0 0 0 ${tip([0, 1], REACH)}` }),
    KEYS.map((key, index) => [
      arrow('key', tip(key, 1.2)),
      shape(
        'text',
        { class: 'key', x: tip(key, 1.2)[0] + (index ? 8 : 0), y: tip(key, 1.2)[1] + (index ? 8 : -8) },
        `k${index}`,
      ),
    ]),
    query,
    name,
  );
  /** @param {number[]} vector */
  const turn = (vector) => {
    const [x, y] = tip([vector[0] / REACH, vector[1] / REACH], REACH);
    query.setAttribute('x2', String(x));
    query.setAttribute('y2', String(y));
    name.setAttribute('x', String(x - 4));
    name.setAttribute('y', String(y - 8));
  };
  return { svg, turn };
}

export function lookupView() {
  const { svg, turn } = picture();
  /** @param {string} name @param {Properties} properties */
  const slider = (name, properties) =>
    element('input', { id: fresh('lookup'), type: 'range', 'aria-label': name, onInput: () => draw(), ...properties });
  const place = slider('Direction of the query, from the first key to the second', {
    min: 0,
    max: 1,
    step: 0.01,
    value: 0.3,
  });
  const heat = slider('Temperature', { min: -2, max: 2, step: 0.25, value: -1 });
  const bars = KEYS.map(() => ({ bar: element('span', { class: 'part-bar' }), told: element('span', {}) }));
  const result = element('p', { class: 'readout', role: 'status' });
  const [shownPlace, shownHeat] = [element('output', {}), element('output', {})];
  /** @type {ReturnType<typeof softLookup>} */
  let numbers = softLookup(0, 1);
  const table = tableBehind('Table of the look-up', () => ({
    caption: 'Two keys, their scores, weights and values',
    columns: ['key', 'score', 'weight', 'value'],
    rows: KEYS.map((_, index) => [
      `k${index}`,
      number(numbers.scores[index]),
      percent(numbers.weights[index], 2),
      String(VALUES[index]),
    ]),
  }));

  function draw() {
    const temperature = temperatureOf(Number(heat.value));
    numbers = softLookup(Number(place.value), temperature);
    turn(numbers.query);
    shownPlace.textContent = Number(place.value).toFixed(2);
    shownHeat.textContent = temperature.toFixed(2);
    bars.forEach(({ bar, told }, index) => {
      bar.style.setProperty('--weight', String(numbers.weights[index]));
      told.textContent = percent(numbers.weights[index]);
    });
    const [first, second] = numbers.weights;
    result.replaceChildren(
      `${first.toFixed(3)} × ${VALUES[0]} + ${second.toFixed(3)} × ${VALUES[1]} = `,
      element('b', {}, numbers.result.toFixed(1)),
    );
    table.refresh();
  }

  /** @param {string} label @param {HTMLElement} input @param {Child} more */
  const line = (label, input, more) =>
    element(
      'div',
      { class: 'row slider' },
      element('label', { for: input.id, class: 'slider-name' }, label),
      input,
      more,
    );
  const root = element(
    'section',
    { class: 'card lookup', 'aria-label': 'The soft look-up' },
    element(
      'header',
      {},
      element('h2', {}, 'The soft look-up'),
      element(
        'p',
        { class: 'hint' },
        'A dictionary returns one value. Attention returns a weighted mean: move the query from one key to the other.',
      ),
    ),
    element(
      'div',
      { class: 'lookup-body' },
      svg,
      element(
        'div',
        { class: 'lookup-side' },
        line('query', place, shownPlace),
        line('temperature', heat, shownHeat),
        element(
          'ul',
          { class: 'parts' },
          bars.map(({ bar, told }, index) =>
            element('li', { class: 'part-line' }, element('span', {}, `k${index}, value ${VALUES[index]}`), bar, told),
          ),
        ),
        result,
        table.root,
      ),
    ),
  );
  draw();
  return root;
}
