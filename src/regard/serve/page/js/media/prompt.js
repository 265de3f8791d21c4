// A prompt and a seed: an image is drawn of them, step by step; the image is the answer.

import { button, element } from '../dom.js';
import { seedOf, SEEDS } from './noise.js';

/** @typedef {Input & { text?: string, seed?: number }} PromptInput */

const PROMPT_LETTERS = 4096; // that the server takes
const PROMPT_EXAMPLE = 'a large red circle above a small blue square';

/** @param {string} text @param {number} seed @returns {PromptInput} */
const promptOf = (text, seed) => ({ kind: 'prompt', text, seed });

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
    give(promptOf(words.value, number));
  }

  const next = button('plain', 'Next seed', () => {
    seed.value = String((Number(seed.value) || 0) + 1);
    send();
  });
  return {
    nodes: [words, element('label', { class: 'ask-drop' }, 'Seed ', seed), next],
    show(/** @type {Input} */ input) {
      words.value = input.text ?? '';
      seed.value = String(seedOfPrompt(input));
    },
    send,
  };
}

/** @type {Medium} */
export const promptMedium = {
  kinds: ['prompt'],
  takes: { 'text+noise': () => promptOf(PROMPT_EXAMPLE, 1) },
  describe: (input) => input.text ?? '',
  address: (input) => ({ text: input.text ?? '', seed: String(seedOfPrompt(input)) }),
  restore: (example, { text, seed }) => {
    const number = seedOf(seed ?? '');
    return text === undefined || number === null ? example : promptOf(text, number);
  },
  python: (input) => `${JSON.stringify(input.text ?? '')}, ${seedOfPrompt(input)}`,
  accepts: () => false,
  fromFile: async () => {
    throw new Error('a prompt has no files');
  },
  refused: 'This model draws of text and takes no files.',
  control: promptControl,
};
