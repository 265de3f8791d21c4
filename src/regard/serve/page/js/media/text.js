// Texts: one that is read or goes on, and one with what it became. A text is looked at as it is written.

import { besideText, filledForm, listForm } from '../beside.js';
import { element } from '../dom.js';
import { profileStrip } from '../profile.js';
import { tokenStrip } from '../strip.js';

const PAUSE = 350; // milliseconds without a key, then it is sent
const LONG = 160; // tokens; more of them are not written one by one
const LETTERS = 4096; // that the server takes

/** The words of an input, as a person would write them into the line. */
const writtenIn = (/** @type {Input | null} */ input) => input?.text ?? input?.source ?? '';

/** The same kind of input with other words. */
const withWords = (/** @type {Input | null} */ input, /** @type {string} */ words) =>
  input?.kind === 'pair' ? { kind: 'pair', source: words } : { kind: 'text', text: words };

/** @param {ControlFacts} facts */
function textControl({ store, give }) {
  let timer = 0;
  let writing = 1;
  /** @type {string | null} */
  let sent = null;
  const field = element('input', {
    id: 'sentence',
    type: 'text',
    autocomplete: 'off',
    spellcheck: 'false',
    enterkeyhint: 'go',
    maxlength: LETTERS,
    onBlur: () => {
      writing += 1;
      store.set({ draft: 0 });
    },
    onInput: () => {
      clearTimeout(timer);
      timer = setTimeout(sendText, PAUSE);
    },
  });

  function sendText() {
    clearTimeout(timer);
    const words = field.value.trim();
    if (!words || (!store.state.error && words === writtenIn(store.state.input))) return;
    sent = words;
    give(withWords(store.state.input, words), writing);
  }

  return {
    nodes: [
      element('label', { for: 'sentence', class: 'unseen' }, 'Text'),
      field,
      element('button', { type: 'submit', class: 'strong' }, 'Run'),
    ],
    show(/** @type {Input} */ input) {
      field.placeholder = input.kind === 'pair' ? 'Enter a sentence to translate' : 'Enter a text';
      if (writtenIn(input) === sent) sent = null; // from here: who writes is not disturbed
      else field.value = writtenIn(input);
    },
    send() {
      sendText();
      writing += 1;
    },
  };
}

/** @type {Medium & { axes: { text: Places } }} */
export const textMedium = {
  kinds: ['text', 'pair'],
  takes: {
    text: () => ({ kind: 'text', text: 'A short text to begin with.' }),
    pair: () => ({ kind: 'pair', source: 'Where are my keys?' }),
  },
  describe: writtenIn,
  address: (input) => {
    const text = writtenIn(input);
    return text ? Object.fromEntries([['text', text]]) : {};
  },
  restore: (example, { text }) => (text ? withWords(example, text) : example),
  python: (input) => JSON.stringify(writtenIn(input)),
  accepts: () => false,
  fromFile: async (file, source, input) => input,
  refused: '',
  control: textControl,
  axes: {
    text: {
      one: 'token',
      many: 'tokens',
      lays: () => false,
      strip: (store, name, axis, roles) => (axis.size > LONG ? profileStrip : tokenStrip)(store, name, axis, roles),
    },
  },
  answers: {
    text: {
      title: 'Generated text',
      top: (answer) => answer.text,
      body: (answer, before) => besideText(answer.text ?? '', before && (before.text ?? '')),
    },
    next: { title: 'Next token', ...listForm((answer) => /** @type {Chance[]} */ (answer.tokens)) },
    filled: { title: 'Predicted tokens', ...filledForm },
  },
};
