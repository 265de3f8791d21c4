// Noise: a seed, of which an image is drawn; the image is the answer.

import { beside } from '../beside.js';
import { button, element } from '../dom.js';

/** @typedef {Input & { seed?: number }} NoiseInput */
/** @typedef {Answer & { seed: number, number: number, width: number, height: number, png: string }} Drawing */

const LARGEST_SEED = Number.MAX_SAFE_INTEGER;
export const SEEDS = { min: 0, max: LARGEST_SEED, step: 1 };

/** @param {Input} input */
const seedIn = (input) => /** @type {NoiseInput} */ (input).seed ?? 0;

/** What a person or an address says, if it is a seed. @param {string | undefined} text @returns {number | null} */
export function seedOf(text) {
  const seed = /^\d{1,16}$/.test(text ?? '') ? Number(text) : -1;
  return seed >= 0 && seed <= LARGEST_SEED ? seed : null;
}

/** @param {string | undefined} text @returns {NoiseInput | null} */
function noiseOf(text) {
  const seed = seedOf(text);
  return seed === null ? null : /** @type {NoiseInput} */ ({ kind: 'noise', seed });
}

/** In words. @param {Answer} told */
function wordsOf(told) {
  const { width, height, seed } = /** @type {Drawing} */ (told);
  return `${width} x ${height} pixels of seed ${seed}`;
}

/** @param {Answer} told */
function drawnImage(told) {
  const { png } = /** @type {Drawing} */ (told);
  return element('img', { class: 'drawn', src: png, alt: `The drawn image: ${wordsOf(told)}` });
}

/** @param {ControlFacts} facts */
function noiseControl({ store, give }) {
  const seed = element('input', {
    type: 'number',
    class: 'ask-seed',
    ...SEEDS,
    'aria-label': 'Seed of the noise',
    onChange: () => send(),
  });

  function send() {
    const found = noiseOf(seed.value.trim());
    const input = /** @type {NoiseInput | null} */ (store.state.input);
    if (found && found.seed !== input?.seed) give(found);
  }

  const next = button('plain', 'Next seed', () => {
    seed.value = String((Number(seed.value) || 0) + 1);
    send();
  });
  const line = element('div', { class: 'ask-picture' }, element('label', { class: 'ask-drop' }, 'Seed ', seed), next);
  return {
    nodes: [line],
    show(/** @type {Input} */ input) {
      seed.value = String(seedIn(input));
    },
    send,
  };
}

/** @type {Medium} */
export const noiseMedium = {
  kinds: ['noise'],
  takes: { noise: () => /** @type {NoiseInput} */ ({ kind: 'noise', seed: 1 }) },
  describe: (input) => `seed ${seedIn(input)}`,
  address: (input) => ({ seed: String(seedIn(input)) }),
  restore: (example, { seed }) => noiseOf(seed) ?? example,
  python: (input) => String(seedIn(input)),
  accepts: () => false,
  fromFile: async () => {
    throw new Error('noise has no files');
  },
  refused: 'This model draws of noise and takes no files.',
  control: noiseControl,
  answers: {
    drawing: {
      title: 'Drawn image',
      top: wordsOf,
      body: (answer, before) => (before ? beside(drawnImage(before), drawnImage(answer)) : [drawnImage(answer)]),
    },
  },
};
