// A prompt and a seed: an image is drawn of them, step by step; the image is the answer.

import { button, element } from '../dom.js';
import { drawingPad } from './drawing.js';
import { seedOf, SEEDS } from './noise.js';

/** Of an image that is there, only what is white in the mask is drawn. @typedef {{ mask: string, of: { text: string, seed: number } }} Part */
/** @typedef {Input & { text?: string, seed?: number } & Partial<Part>} PromptInput */

const PROMPT_LETTERS = 4096; // that the server takes
const PROMPT_EXAMPLE = 'a large red circle above a small blue square';

const MASK_BEGINS = 'data:image/png;base64,';
const SHORT_MASK = 6000; // letters of a mask that still goes into an address
const MASK_PAD = {
  title: 'Redraw a part',
  side: 128,
  brush: 16,
  steps: 4,
  hard: true,
  hint: 'Paint what is to be drawn anew by the next seed; then change the words, too. Or use the arrow keys, with Shift to paint.',
};

/** @param {string} text @param {number} seed @param {Part | null} part @returns {PromptInput} */
const promptOf = (text, seed, part = null) => ({ kind: 'prompt', text, seed, ...part });

/** The part of an input that is drawn, if it is not the whole. @param {Input | null} input @returns {Part | null} */
function partOf(input) {
  const { mask, of } = /** @type {PromptInput} */ (input ?? {});
  return mask && of ? { mask, of } : null;
}

/** What an address says of a part, if that is one. @param {Record<string, string>} given @returns {Part | null} */
function partIn({ mask, of, from }) {
  const number = seedOf(from ?? '');
  return mask?.startsWith(MASK_BEGINS) && of !== undefined && number !== null ? { mask, of: { text: of, seed: number } } : null;
}

/** @param {Input} input @returns {Record<string, string> | null} */
function addressOf(input) {
  const part = partOf(input);
  const plain = { text: input.text ?? '', seed: String(seedOfPrompt(input)) };
  if (!part) return plain;
  const { mask, of } = part;
  return mask.length < SHORT_MASK ? { ...plain, mask, of: of.text, from: String(of.seed) } : null;
}

/** @param {Input} input */
function pythonOf(input) {
  const part = partOf(input);
  const plain = `${JSON.stringify(input.text ?? '')}, ${seedOfPrompt(input)}`;
  if (!part) return plain;
  const { text, seed } = part.of;
  return `${plain}, regard.modalities.drawing.redrawing.Redrawing("mask.png", ${JSON.stringify(text)}, ${seed})`;
}

/** @param {Input} input */
const seedOfPrompt = (input) => /** @type {PromptInput} */ (input).seed ?? 0;

/** @param {ControlFacts} facts */
function promptControl({ store, give }) {
  const words = element('input', {
    type: 'text',
    class: 'ask-prompt',
    autocomplete: 'off',
    spellcheck: 'false',
    enterkeyhint: 'go',
    maxlength: PROMPT_LETTERS,
    'aria-label': 'Text to draw',
    onChange: () => send(),
  });
  const seed = element('input', { type: 'number', class: 'ask-seed', ...SEEDS, 'aria-label': 'Seed', onChange: () => send() });

  /** A drawing takes a while: it begins when the line is left or confirmed, not at each letter. */
  function send() {
    const number = seedOf(seed.value.trim());
    const input = store.state.input;
    if (number === null || (input && words.value === input.text && number === seedOfPrompt(input))) return;
    give(promptOf(words.value, number, partOf(input)));
  }

  const pad = drawingPad((mask) => {
    const { input } = store.state;
    const of = partOf(input)?.of ?? { text: input?.text ?? '', seed: input ? seedOfPrompt(input) : 0 };
    give(promptOf(words.value, Math.min(SEEDS.max, (Number(seed.value) || 0) + 1), { mask, of }));
  }, MASK_PAD);
  const redraw = button('plain', 'Redraw a part…', () => {
    const answer = /** @type {Input | undefined} */ (store.state.look?.document.answer);
    if (answer?.png) pad.open(answer.png);
  });
  const whole = button('plain', 'Whole image', () => {
    const number = seedOf(seed.value.trim());
    if (number !== null) give(promptOf(words.value, number));
  });

  const next = button('plain', 'Next seed', () => {
    seed.value = String((Number(seed.value) || 0) + 1);
    send();
  });
  return {
    nodes: [words, element('div', { class: 'ask-seeds' }, element('label', {}, 'Seed ', seed), next, redraw, whole), pad.dialog],
    show(/** @type {Input} */ input) {
      words.value = input.text ?? '';
      seed.value = String(seedOfPrompt(input));
      whole.hidden = partOf(input) === null;
    },
    send,
  };
}

/** @type {Medium} */
export const promptMedium = {
  kinds: ['prompt'],
  takes: { 'text+noise': () => promptOf(PROMPT_EXAMPLE, 1) },
  describe: (input) => input.text ?? '',
  address: addressOf,
  restore: (example, given) => {
    const number = seedOf(given.seed ?? '');
    return given.text === undefined || number === null ? example : promptOf(given.text, number, partIn(given));
  },
  python: pythonOf,
  accepts: () => false,
  fromFile: async () => {
    throw new Error('a prompt has no files');
  },
  refused: 'This model draws of text and takes no files.',
  control: promptControl,
};
