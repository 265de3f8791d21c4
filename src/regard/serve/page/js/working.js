// The steps of one cell's arithmetic, each a title, a formula with its numbers, and a picture.

import { moduleOf } from './axes.js';
import { element, number, percent } from './dom.js';
import { softmax } from './numeric.js';
import { rowOfBars, vectorBars } from './vectors.js';

/** @param {string} name @param {string} title @param {Child} formula @param {...Child} rest */
const stepItem = (name, title, formula, ...rest) =>
  element('li', { 'data-step': name }, element('h3', {}, title), element('p', { class: 'formula' }, formula), rest);

/** The temperature that is in force at a site: the last change that names it wins.
    @param {Change[]} changes @param {string} site */
export function heatOf(changes, site) {
  const names = [moduleOf(site), '*'];
  return changes.flatMap((one) => (one.kind === 'temperature' && names.includes(one.site) ? [one.value] : [])).at(-1) ?? 1;
}

/** All numbers that the steps show, from those of the API.
    @param {WholeCell} numbers @param {number} key @param {number} heat */
export function takeApart(numbers, key, heat) {
  const { weights, powers, total, top } = softmax(
    numbers.scores.map((score) => (score === null ? null : score / heat)),
  );
  const hidden = numbers.scores.filter((score) => score === null).length;
  const products = Array.from(numbers.query, (value, index) => value * numbers.key[index]);
  const gap = Math.max(...weights.map((weight, index) => Math.abs(weight - numbers.weights[index])));
  return { weights, power: powers[key], total, top, hidden, products, gap };
}

/** @param {WorkFacts} facts */
export function multiplied({ numbers, parts, rowName, columnName }) {
  const width = numbers.query.length;
  return stepItem(
    'product',
    'Dot product',
    ['q · k = ', element('b', {}, number(numbers.product, 2))],
    element(
      'div',
      { class: 'vectors' },
      element('span', { class: 'query' }, 'q'),
      vectorBars(numbers.query, 'query', `query of ${rowName}, ${width} numbers`),
      element('span', { class: 'key' }, 'k'),
      vectorBars(numbers.key, 'key', `key of ${columnName}, ${width} numbers`),
      element('span', {}, 'q×k'),
      vectorBars(parts.products, 'product', `${width} products`),
    ),
  );
}

/** @param {WorkFacts} facts */
export function scaled({ numbers, heat }) {
  const biased = Math.abs(numbers.bias) > 1e-6;
  const width = numbers.query.length;
  const root = Math.abs(numbers.scale - width ** -0.5) < 1e-6;
  const words = [root ? 'Divide by √d' : 'Scale', biased && 'add the bias', heat !== 1 && 'divide by the temperature'];
  const scale = root ? `/ √${width}` : `× ${numbers.scale.toPrecision(3)}`;
  return stepItem('scale', words.filter(Boolean).join(', '), [
    `${biased && heat !== 1 ? '(' : ''}${number(numbers.product, 2)} ${scale}`,
    biased ? ` ${numbers.bias < 0 ? '−' : '+'} ${Math.abs(numbers.bias).toFixed(3)}${heat !== 1 ? ')' : ''}` : '',
    heat !== 1 ? ` / ${heat}` : '',
    ' = ',
    element('b', {}, number(numbers.score / heat)),
  ]);
}

/** A small power would be 0.000. @param {number} power */
export const powerWord = (power) => (power >= 0.0005 ? power.toFixed(3) : power.toExponential(1));

/** @param {WorkFacts} facts */
export function normalised({ numbers, parts, heat, key, labels }) {
  if (numbers.masked)
    return stepItem('softmax', 'Masked', [
      'this key is hidden from this query: weight ',
      element('b', { class: 'result' }, percent(0)),
    ]);
  const shown = powerWord(parts.power);
  return stepItem(
    'softmax',
    parts.hidden ? `Mask ${parts.hidden}, softmax over the rest` : 'Softmax over the row',
    [
      `e^(${number(numbers.score / heat)} − ${number(parts.top)}) = ${shown}`,
      element('br'),
      `${shown} / ${parts.total.toFixed(3)} = `,
      element('b', { class: 'result' }, percent(parts.weights[key])),
    ],
    rowOfBars(parts.weights, key, labels, percent),
  );
}

/** @param {WorkFacts} facts */
export function carried({ numbers, columnName, rowName }) {
  const share = Array.from(numbers.value, (value) => value * numbers.weight);
  const limit = Math.max(...Array.from(numbers.mixed, Math.abs), ...share.map(Math.abs)) || 1;
  return stepItem(
    'value',
    'Multiply the value by the weight',
    [`${percent(numbers.weight)} of v is added to the output`],
    element(
      'div',
      { class: 'vectors' },
      element('span', {}, 'w×v'),
      vectorBars(share, 'product', `the weighted value of ${columnName}`, limit),
      element('span', {}, 'Σ w×v'),
      vectorBars(numbers.mixed, 'mixed', `output of the head for ${rowName}`, limit),
    ),
  );
}
