// The steps of the tour. Each sets the state, points at a part of the page, and writes its sentence from the numbers
// that are on the screen, never from memory. They work at any site that has queries and keys.

import { headWord, labelOf, wordsFor } from './axes.js';
import { placesOf } from './media/index.js';
import { heatOf, powerWord, takeApart } from './working.js';
import { largest, number, percent, plural } from './dom.js';

/** @param {string[]} words */
const list = (words) => (words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} and ${words.at(-1)}`);

/** Whether a row looks at nothing that comes after it, in the map on the screen; of a large map that is not known.
    @param {SheetLike | undefined} sheet */
function isCausal(sheet) {
  if (!sheet?.exact || sheet.rows < 2 || sheet.rows !== sheet.columns) return false;
  return sheet.exact.every((weight, index) => index % sheet.columns <= Math.floor(index / sheet.columns) || weight === 0);
}

/** What a step may speak of: the look, the site, one cell taken apart, and the map that it is in.
    @param {OpenCell} cell @param {SheetLike} [sheet] @returns {StepFacts} */
export function facts(cell, sheet) {
  const site = cell.look.at(cell.site);
  const { axes, model, changes } = cell.look.document;
  const [rowAxis, columnAxis] = [axes[site.rows], axes[site.columns]];
  const numbers = /** @type {WholeCell} */ (cell.numbers);
  const heat = heatOf(changes, cell.site);
  return {
    numbers,
    heat,
    parts: takeApart(numbers, cell.key, heat),
    model,
    facts: site,
    rowAxis,
    columnAxis,
    query: cell.query,
    key: cell.key,
    row: wordsFor(rowAxis, cell.query),
    column: wordsFor(columnAxis, cell.key),
    fed: fedTo(cell.look, site, cell.query),
    name: headWord(site, cell.head),
    sites: cell.look.document.sites,
    causal: site.role === 'self' && isCausal(sheet),
  };
}

/** The word that a row is made of, where it is named after the one that is written there: the word before.
    @param {LookLike} look @param {Site} site @param {number} query */
function fedTo({ document: { axes } }, site, query) {
  if (site.rows !== 'written') return '';
  if (axes.target) return labelOf(axes.target, query);
  return query > 0 ? labelOf(axes.written, query - 1) : 'the begin token';
}

/** Which keys a query does not see, and why as far as the scores tell. @param {StepFacts} facts */
function hiddenWords({ parts, numbers, query, row, columnAxis, causal }) {
  const hidden = numbers.scores.flatMap((score, index) => (score === null ? [index] : []));
  const later = causal && hidden.every((index) => index > query);
  const which = later ? 'those that come after it' : 'by the mask of this layer';
  return `${parts.hidden} of ${columnAxis.size} keys are hidden from “${row}”, ${which}. Their scores are set to minus infinity, so their weights are 0.`;
}

/** @param {StepFacts} facts */
function openWords({ row, columnAxis, facts: site, causal }) {
  const all = `No key is hidden from “${row}”: all ${columnAxis.size} take part.`;
  if (causal) return `${all} It is the last row. A row above it does not see the keys after its own, so the upper right of this map is empty.`;
  if (site.role === 'cross' && site.rows === 'written') return `${all} In cross-attention the whole ${site.columns} is known before a word is written, so nothing has to be hidden.`;
  return all;
}

/** "17 patches"; of what no medium knows, "17 positions". @param {Axis} axis */
function placesIn(axis) {
  const { one, many } = placesOf(axis) ?? { one: 'position', many: 'positions' };
  return `${axis.size.toLocaleString('en')} ${axis.size === 1 ? one : many}`;
}

/** @param {StepFacts} facts */
function scaleWords({ numbers: { query, product, scale, score, bias }, heat }) {
  const root = Math.abs(scale - query.length ** -0.5) < 1e-6;
  const first = root
    ? `A sum of ${query.length} products grows with their number, so it is multiplied by ${scale.toPrecision(3)}, which is 1/√${query.length}`
    : `The product is multiplied by ${scale.toPrecision(3)}, the scale of this layer`;
  const words = [`${first}: ${number(product, 2)} becomes ${number(score - bias)}.`];
  if (Math.abs(bias) > 1e-6) words.push(`A bias for this pair of positions, ${number(bias)}, is added: the score is ${number(score)}.`);
  if (heat !== 1) words.push(`It is divided by the temperature, ${heat}: ${number(score / heat)}.`);
  return words.join(' ');
}

/** @param {StepFacts} facts */
function softmaxWords({ numbers, parts, heat, key, column, columnAxis, row }) {
  if (numbers.masked) return `“${column}” is hidden from “${row}”, so its weight is ${percent(0)}.`;
  const best = largest(parts.weights);
  const share = percent(parts.weights[key]);
  const score = number(numbers.scores[key] === null ? 0 : /** @type {number} */ (numbers.scores[key]) / heat);
  const most =
    best === key
      ? 'It is the largest weight of the row.'
      : `The largest weight of the row is that of “${wordsFor(columnAxis, best)}”, ${percent(parts.weights[best])}.`;
  const other = parts.gap > 1e-3 ? ` With the changes the model’s own weight is ${percent(numbers.weight)}.` : '';
  return `First the largest score of the row, ${number(parts.top)}, is subtracted from each, which does not change the weights. The exponential of ${score} − ${number(parts.top)} is ${powerWord(parts.power)}. Divided by the sum of all of them, ${parts.total.toFixed(3)}, it is the weight of “${column}”, ${share}. ${most}${other}`;
}

export const STEPS = [
  {
    title: 'The input becomes positions',
    part: '.sentence',
    text: (/** @type {StepFacts} */ { rowAxis, columnAxis, facts: site, row, fed }) =>
      (site.rows === site.columns
        ? `The model reads ${placesIn(rowAxis)}, and each of them has a row in the map. The bars show the weights of one query, “${row}”.`
        : `Here ${placesIn(rowAxis)} of the ${site.rows} attend to ${placesIn(columnAxis)} of the ${site.columns}. The bars show the weights of one query, “${row}”.`) +
      (fed && ` The row is named after the word that is written there; what the decoder is fed in this row is the word before it, “${fed}”.`),
  },
  {
    title: 'The query',
    part: '.cell [data-step=product]',
    text: (/** @type {StepFacts} */ { row, fed, numbers: { query }, name }) =>
      `In ${name}, the vector of the row “${row}”${fed && `, which was fed “${fed}”,`} is projected to a query of ${query.length} numbers: what it is looking for. The red bars show it; the first number is ${number(query[0], 2)}.`,
  },
  {
    title: 'The keys',
    part: '.cell [data-step=product]',
    text: (/** @type {StepFacts} */ { column, numbers, columnAxis }) =>
      `Each of the ${placesIn(columnAxis)} that can be attended to is projected to a key of the same length: what it offers. The teal bars show the key of “${column}”; its first number is ${number(numbers.key[0], 2)}.`,
  },
  {
    title: 'Scores',
    part: '.cell [data-step=product]',
    text: (/** @type {StepFacts} */ { row, column, numbers: { query, product } }) =>
      `The dot product, the sum of ${query.length} products, is q · k = ${number(product, 2)} for “${row}” and “${column}”. It is large where both vectors are long and point in the same direction.`,
  },
  { title: 'Scaling', part: '.cell [data-step=scale]', text: scaleWords },
  {
    title: 'Masking',
    part: '.stage',
    text: (/** @type {StepFacts} */ given) => (given.parts.hidden ? hiddenWords(given) : openWords(given)),
  },
  { title: 'Softmax', part: '.cell [data-step=softmax]', text: softmaxWords },
  {
    title: 'The values',
    part: '.cell [data-step=value]',
    text: (/** @type {StepFacts} */ { numbers: { weight, value, mixed }, column, row }) =>
      `A third vector of “${column}”, its value of ${value.length} numbers, is multiplied by its weight, ${percent(weight)}. The sum over all keys is the output of the head for the row “${row}”: its first number is ${number(mixed[0], 2)}.`,
  },
  {
    title: 'Multiple heads',
    part: '.heads',
    text: (/** @type {StepFacts} */ { facts: site, sites, name }) => {
      const total = sites.reduce((sum, one) => sum + one.heads, 0);
      const parts = list([...new Set(sites.map((one) => [one.part, one.role].filter(Boolean).join(' ')))]);
      return `All of this was ${name}. This layer has ${plural(site.heads, 'head')}, the model ${plural(total, 'map')} (${parts}). Each head has its own queries, so it can attend to different positions.`;
    },
  },
  {
    title: 'Intervene',
    part: '.intervene',
    text: (/** @type {StepFacts} */ { column }) =>
      `Mask “${column}”, switch the head off, or change the temperature: the model runs again, and the new answer is shown beside the old one. A high weight does not prove that a token matters; interventions test it.`,
  },
];
