// The steps of the tour. Each sets the state, points at a part of the page, and writes its sentence from the numbers
// that are on the screen, never from memory. They work at any site that has queries and keys.

import { headWord, wordsFor } from './axes.js';
import { placesOf } from './media/index.js';
import { heatOf, takeApart } from './working.js';
import { largest, number, percent, plural } from './dom.js';

/** @param {string[]} words */
const list = (words) => (words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} and ${words.at(-1)}`);

/** What a step may speak of: the look, the site, and one cell taken apart. @param {OpenCell} cell @returns {StepFacts} */
export function facts(cell) {
  const site = cell.look.at(cell.site);
  const { axes, model } = cell.look.document;
  const [rowAxis, columnAxis] = [axes[site.rows], axes[site.columns]];
  const numbers = /** @type {WholeCell} */ (cell.numbers);
  return {
    ...numbers,
    numbers,
    parts: takeApart(numbers, cell.key, heatOf(cell.look.document.changes, cell.site)),
    model,
    facts: site,
    rowAxis,
    columnAxis,
    row: wordsFor(rowAxis, cell.query),
    column: wordsFor(columnAxis, cell.key),
    name: headWord(site, cell.head),
    sites: cell.look.document.sites,
  };
}

/** "17 patches"; of what no medium knows, "17 positions". @param {Axis} axis */
function placesIn(axis) {
  const { one, many } = placesOf(axis) ?? { one: 'position', many: 'positions' };
  return `${axis.size.toLocaleString('en')} ${axis.size === 1 ? one : many}`;
}

export const STEPS = [
  {
    title: 'The input becomes positions',
    part: '.sentence',
    text: (/** @type {StepFacts} */ { rowAxis, columnAxis, facts: site, row }) =>
      site.rows === site.columns
        ? `The model reads ${placesIn(rowAxis)}. Each of them can attend to the others; the bars show the weights of one query, “${row}”.`
        : `Here ${rowAxis.size} positions of the ${site.rows} attend to ${columnAxis.size} of the ${site.columns}. The bars show the weights of one query, “${row}”.`,
  },
  {
    title: 'The query',
    part: '.cell [data-step=product]',
    text: (/** @type {StepFacts} */ { row, query, name }) =>
      `In ${name}, “${row}” is projected to a query, a vector of ${query.length} numbers: what it is looking for. The red bars show it; the first number is ${number(query[0], 2)}.`,
  },
  {
    title: 'The keys',
    part: '.cell [data-step=product]',
    text: (/** @type {StepFacts} */ { column, numbers, columnAxis }) =>
      `Each of the ${columnAxis.size} positions is also projected to a key of the same length: what it contains. The teal bars show the key of “${column}”; its first number is ${number(numbers.key[0], 2)}.`,
  },
  {
    title: 'Scores',
    part: '.cell [data-step=product]',
    text: (/** @type {StepFacts} */ { row, column, product, query }) =>
      `The dot product, the sum of ${query.length} products, is q · k = ${number(product, 2)} for “${row}” and “${column}”. It is large where both vectors point in the same direction.`,
  },
  {
    title: 'Scaling',
    part: '.cell [data-step=scale]',
    text: (/** @type {StepFacts} */ { product, scale, score, query, bias }) =>
      `A sum of ${query.length} products grows with their number, so it is multiplied by ${scale.toPrecision(3)}${Math.abs(scale - query.length ** -0.5) < 1e-6 ? `, which is 1/√${query.length}` : ''}: ${number(product, 2)} becomes ${number(score - bias, 3)}.${Math.abs(bias) > 1e-6 ? ` A bias of ${number(bias, 3)} is added: it depends on the relative positions.` : ''}`,
  },
  {
    title: 'Masking',
    part: '.stage',
    text: (/** @type {StepFacts} */ { parts, row, columnAxis }) =>
      parts.hidden
        ? `${parts.hidden} of ${columnAxis.size} keys are hidden from “${row}”: they come later, or are masked. Their scores are set to minus infinity, so their weights are 0.`
        : `No key is hidden from “${row}” here: all ${columnAxis.size} take part. With the causal mask of a decoder, the upper right half of the map is empty.`,
  },
  {
    title: 'Softmax',
    part: '.cell [data-step=softmax]',
    text: (/** @type {StepFacts} */ { parts, weights, columnAxis, weight, column }) => {
      const best = largest(weights);
      const most =
        weights[best] === weight
          ? ', the largest weight'
          : `; the largest weight is that of “${wordsFor(columnAxis, best)}”, ${percent(weights[best])}`;
      return `The exponential of each score is divided by the sum of all, ${parts.total.toFixed(2)}. The weights sum to 1: “${column}” gets ${percent(weight)}${most}.`;
    },
  },
  {
    title: 'The values',
    part: '.cell [data-step=value]',
    text: (/** @type {StepFacts} */ { weight, column, value, mixed, row }) =>
      `A third vector of “${column}”, its value of ${value.length} numbers, is multiplied by its weight, ${percent(weight)}. The sum over all keys is the output of the head for “${row}”: its first number is ${number(mixed[0], 2)}.`,
  },
  {
    title: 'Multiple heads',
    part: '.heads',
    text: (/** @type {StepFacts} */ { facts: site, sites, name }) => {
      const total = sites.reduce((sum, one) => sum + one.heads, 0);
      const parts = list([...new Set(sites.map((one) => [one.part, one.role].filter(Boolean).join(' ')))]);
      return `All of this was ${name}. This layer has ${plural(site.heads, 'head')}, the model ${plural(total, 'map')} (${parts}). Each head has its own queries, keys and values, so it can attend to different positions.`;
    },
  },
  {
    title: 'Intervene',
    part: '.intervene',
    text: (/** @type {StepFacts} */ { column }) =>
      `Mask “${column}”, switch the head off, or change the temperature: the model runs again, and the new answer is shown beside the old one. A high weight does not prove that a token matters; interventions test it.`,
  },
];
