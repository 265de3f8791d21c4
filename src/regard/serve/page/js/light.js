// How numbers become light, bars and words, by the kind of a map: shares, influences, weights of both signs.

import { furthest, largest, percent, signed } from './dom.js';

/** @type {Omit<Over, 'word' | 'write'>} */
const light = {
  ramp: 'overlay',
  strongest: (part) => part[largest(part)],
  place: (value, top) => Math.max(0, value) / top,
  alpha: (value, top) => 0.3 + (0.55 * Math.max(0, value)) / top,
  told: (top, write) => `brightest: ${write(top)}`,
};

/** How numbers become light: each row is stretched to its own strongest. What has a sign is clear where it is nothing. @type {Over} */
export const SHARES = { ...light, word: 'weight', write: (value) => percent(value) };
/** @type {Over} */
export const INFLUENCES = { ...light, word: 'influence', write: (value) => value.toPrecision(3) };
/** @type {Over} */
export const SIGNED = {
  ramp: 'signs',
  word: 'weight',
  strongest: (part) => furthest(part),
  place: (value, top) => (value / top + 1) / 2,
  alpha: (value, top) => 0.1 + (0.8 * Math.abs(value)) / top,
  told: (top, write) => `${write(-top)} to ${write(top)}`,
  write: (value) => signed(value, Math.abs(value) < 0.01 ? 5 : 3),
};

/** By the kind of a map. @type {Record<string, Over>} */
export const OVERS = { weights: SHARES, influence: INFLUENCES, signed: SIGNED };
