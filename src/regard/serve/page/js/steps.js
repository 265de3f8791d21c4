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
    title: 'Everything becomes positions',
    part: '.sentence',
    text: (/** @type {StepFacts} */ { rowAxis, columnAxis, facts: site, row }) =>
      site.rows === site.columns
        ? `The model reads ${placesIn(rowAxis)}. Each of them may look at the others; the bars show where one of them, “${row}”, looks.`
        : `Here ${rowAxis.size} positions of the ${site.rows} look at ${columnAxis.size} of the ${site.columns}. The bars show where one of them, “${row}”, looks.`,
  },
  {
    title: 'A query asks',
    part: '.cell [data-step=product]',
    text: (/** @type {StepFacts} */ { row, query, name }) =>
      `In ${name}, “${row}” is made into ${query.length} numbers, its query: what it is looking for. They are the red bars; the first is ${number(query[0], 2)}.`,
  },
  {
    title: 'A key offers',
    part: '.cell [data-step=product]',
    text: (/** @type {StepFacts} */ { column, numbers, columnAxis }) =>
      `Each of the ${columnAxis.size} positions is also made into a key, as long as the query: what it offers. The teal bars are the key of “${column}”; it begins with ${number(numbers.key[0], 2)}.`,
  },
  {
    title: 'Scores: how well they fit',
    part: '.cell [data-step=product]',
    text: (/** @type {StepFacts} */ { row, column, product, query }) =>
      `Multiply number by number and add up: ${query.length} products give q · k = ${number(product, 2)} for “${row}” and “${column}”. Large where both point the same way.`,
  },
  {
    title: 'Scale',
    part: '.cell [data-step=scale]',
    text: (/** @type {StepFacts} */ { product, scale, score, query, bias }) =>
      `A sum of ${query.length} products grows with their number, so it is multiplied by ${scale.toPrecision(3)}${Math.abs(scale - query.length ** -0.5) < 1e-6 ? `, which is 1/√${query.length}` : ''}: ${number(product, 2)} becomes ${number(score - bias, 3)}.${Math.abs(bias) > 1e-6 ? ` A bias of ${number(bias, 3)} is added: this model knows where positions stand to each other.` : ''}`,
  },
  {
    title: 'Mask',
    part: '.stage',
    text: (/** @type {StepFacts} */ { parts, row, columnAxis }) =>
      parts.hidden
        ? `${parts.hidden} of ${columnAxis.size} keys are hidden from “${row}”: they come later, or are crossed out. Their scores count as minus infinity, and no weight is left for them.`
        : `Nothing is hidden from “${row}” here: all ${columnAxis.size} keys take part. In a decoder, the upper right half of the map would be empty.`,
  },
  {
    title: 'Softmax: a share for each',
    part: '.cell [data-step=softmax]',
    text: (/** @type {StepFacts} */ { parts, weights, columnAxis, weight, column }) => {
      const best = largest(weights);
      const most =
        weights[best] === weight
          ? ', the most of all'
          : `, the most goes to “${wordsFor(columnAxis, best)}”, ${percent(weights[best])}`;
      return `Each score becomes e to its power, divided by the sum of all, ${parts.total.toFixed(2)}. The shares add up to one: “${column}” gets ${percent(weight)}${most}.`;
    },
  },
  {
    title: 'Values: what is brought home',
    part: '.cell [data-step=value]',
    text: (/** @type {StepFacts} */ { weight, column, value, mixed, row }) =>
      `A third vector of “${column}”, its value of ${value.length} numbers, is taken ${percent(weight)} strong. Summed over all keys this is what the head brings for “${row}”: it begins with ${number(mixed[0], 2)}.`,
  },
  {
    title: 'Heads: many at once',
    part: '.heads',
    text: (/** @type {StepFacts} */ { facts: site, sites, name }) => {
      const total = sites.reduce((sum, one) => sum + one.heads, 0);
      const parts = list([...new Set(sites.map((one) => [one.part, one.role].filter(Boolean).join(' ')))]);
      return `All of that was ${name}. This site has ${plural(site.heads, 'head')}, the model ${plural(total, 'map')} (${parts}). Each has its own queries, keys and values, and so its own idea of what matters.`;
    },
  },
  {
    title: 'Now change something',
    part: '.intervene',
    text: (/** @type {StepFacts} */ { column }) =>
      `Cross out “${column}”, switch the head off, or turn the temperature: the model runs again, and its new answer stands beside the old one. A high weight is not always a reason; this is how to find out.`,
  },
];
