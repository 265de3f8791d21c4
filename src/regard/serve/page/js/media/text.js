// Texts: one that is read or goes on, and one with what it became. A text is looked at as it is written.

import { besideText, filledForm, listForm } from '../beside.js';
import { element } from '../dom.js';
import { profileStrip } from '../profile.js';
import { tokenStrip } from '../strip.js';
import { embeddingForm, spanForm, tagsForm } from './reading.js';

const PAUSE = 350; // milliseconds without a key, then it is sent
const LONG = 160; // tokens; more of them are not written one by one
const LETTERS = 4096; // that the server takes

/** The words of an input, as a person would write them into the line. */
const writtenIn = (/** @type {Input | null} */ input) => input?.text ?? input?.source ?? '';

/** The same kind of input with other words. @returns {Input} */
const withWords = (/** @type {Input | null} */ input, /** @type {string} */ words, /** @type {string} */ second) =>
  input?.kind === 'pair'
    ? { kind: 'pair', source: words }
    : { kind: 'text', text: words, ...(second ? { second } : {}) };

/** What a second text is, by the first verb of a model that can be given one. */
const SECOND = new Map([
  ['answer', 'Text that contains the answer'],
  ['classify', 'Second text, if the model reads pairs'],
  ['embed', 'Second text to compare with'],
]);

/** What a reader should know of an answer, such as letters that the model has never read. */
const remarked = (/** @type {Answer} */ answer) => (answer.remark ? [element('p', { class: 'hint' }, answer.remark)] : []);

const nextForm = listForm((answer) => /** @type {Chance[]} */ (answer.tokens));

/** @param {ControlFacts} facts */
function textControl({ store, source, give }) {
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
  const second = element('input', {
    type: 'text',
    class: 'ask-second',
    autocomplete: 'off',
    spellcheck: 'false',
    maxlength: LETTERS,
    hidden: true,
    onChange: () => sendText(),
  });
  const beside = () => (second.hidden ? '' : second.value.trim());

  /** Whether this model can be given a second text, and what that is. */
  store.watch(['model'], async ({ model }) => {
    const models = await source.models().catch(() => []); // the picker tells why
    second.placeholder = SECOND.get(models.find((one) => one.name === model)?.verbs?.[0] ?? '') ?? '';
    second.hidden = !second.placeholder || store.state.input?.kind !== 'text';
    second.setAttribute('aria-label', second.placeholder);
    second.value = store.state.input?.second ?? '';
  });

  function sendText() {
    clearTimeout(timer);
    const words = field.value.trim();
    const { input, error } = store.state;
    if (!error && words === writtenIn(input) && beside() === (input?.second ?? '')) return;
    sent = words;
    give(withWords(input, words, beside()), writing);
  }

  return {
    nodes: [
      element('label', { for: 'sentence', class: 'unseen' }, 'Text'),
      field,
      element('button', { type: 'submit', class: 'strong' }, 'Run'),
      second,
    ],
    show(/** @type {Input} */ input) {
      second.value = input.second ?? '';
      second.hidden = !second.placeholder || input.kind !== 'text';
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
  isBlank: (input) => writtenIn(input).trim() === '',
  address: (input) => {
    const text = writtenIn(input);
    const given = /** @type {[string, string][]} */ (text ? [['text', text]] : []);
    if (text && input.second) given.push(['second', input.second]);
    return Object.fromEntries(given);
  },
  restore: (example, { text, second }) => (text ? withWords(example, text, second ?? '') : example),
  python: (input) => [writtenIn(input), input.second].filter(Boolean).map((one) => JSON.stringify(one)).join(', '),
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
      body: (answer, before) => [...besideText(answer.text ?? '', before && (before.text ?? '')), ...remarked(answer)],
    },
    next: {
      title: 'Next token',
      ...nextForm,
      body: (answer, before) => [...nextForm.body(answer, before), ...remarked(answer)],
    },
    filled: { title: 'Predicted tokens', ...filledForm },
    tags: tagsForm,
    span: spanForm,
    embedding: embeddingForm,
  },
};
