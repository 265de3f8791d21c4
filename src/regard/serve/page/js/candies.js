// The numbers of the candy jar: tokens that everybody can see, and three heads that look at them differently.
// A candy's features are its colour in OKLab and its place; a head picks four numbers of them as query and key.

import { scoresOf, softmax, weightedSum } from './numeric.js';

export const JAR = { rows: 4, columns: 6 };

/** @type {[name: string, lightness: number, chroma: number, hue: number][]} */
const FLAVOURS = [
  ['cherry', 0.62, 0.21, 25],
  ['orange', 0.76, 0.16, 62],
  ['lemon', 0.89, 0.16, 100],
  ['lime', 0.8, 0.19, 130],
  ['mint', 0.84, 0.1, 170],
  ['blueberry', 0.53, 0.16, 262],
  ['grape', 0.48, 0.17, 310],
  ['liquorice', 0.3, 0.02, 280],
];

/** Which flavour lies where: fixed, so that everybody sees the same jar. */
const ORDER = [0, 2, 5, 3, 6, 1, 4, 0, 7, 2, 1, 5, 6, 3, 0, 4, 7, 2, 1, 6, 5, 3, 0, 7];

export const CANDIES = ORDER.map((flavour, index) => {
  const [name, lightness, chroma, hue] = FLAVOURS[flavour];
  const angle = (hue * Math.PI) / 180;
  const colour = [lightness, chroma * Math.cos(angle), chroma * Math.sin(angle)];
  return { name, colour, row: Math.floor(index / JAR.columns), column: index % JAR.columns };
});

/** @param {number} place @param {number} period */
const circle = (place, period) => [Math.cos((2 * Math.PI * place) / period), Math.sin((2 * Math.PI * place) / period)];

export const HEADS = {
  colour: (/** @type {Candy} */ { colour: [, a, b] }) => [18 * a, 18 * b, 0, 0],
  lightness: (/** @type {Candy} */ { colour: [lightness] }) => [8 * (lightness - 0.65), 0, 0, 0],
  neighbours: (/** @type {Candy} */ { row, column }) =>
    [...circle(row, 2 * JAR.rows), ...circle(column, 2 * JAR.columns)].map((value) => 2.6 * value),
};

export const WIDTH = 4;

/** softmax(q·k / (√4 T)) over the candies that are not masked, and the mean colour under those weights.
    @param {CandyAsked} facts */
export function candyAttention({ query, head, temperature, masked = new Set(), causal = false }) {
  const vectors = CANDIES.map(HEADS[head]);
  /** @param {number} index */
  const hidden = (index) => masked.has(index) || (causal && index > query);
  const raw = scoresOf(vectors[query], vectors.flat(), WIDTH ** -0.5);
  const scores = raw.map((score, index) => (hidden(index) ? null : score / temperature));
  const { weights } = softmax(scores);
  return {
    vectors,
    scores,
    weights,
    colour: Array.from(
      weightedSum(
        weights,
        CANDIES.flatMap((one) => one.colour),
        3,
      ),
    ),
  };
}
