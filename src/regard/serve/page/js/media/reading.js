// What models that read texts answer: a tag for each word, a part of a text, an embedding.

import { besideText, beside } from '../beside.js';
import { element, percent } from '../dom.js';
import { vectorBars } from '../vectors.js';

/** @typedef {Answer & { words: { word: string, tag: string, probability: number }[] }} Tags */
/** @typedef {Answer & { probability: number }} Span */
/** @typedef {Answer & { vector: number[], similarity: number | null }} Embedding */

/** Each word with its tag below it; tags that differ from those before are marked. @param {Tags} answer @param {Tags | null} before */
const tagList = (answer, before) =>
  element(
    'ul',
    { class: 'tagged' },
    answer.words.map(({ word, tag, probability }, place) => {
      const changed = before !== null && before.words[place]?.tag !== tag;
      return element(
        'li',
        { title: `${word}: ${tag || 'no tag'}, ${percent(probability)}` },
        element('span', {}, word),
        element(changed ? 'ins' : 'span', { class: 'tag' }, tag || '–'),
      );
    }),
  );

/** @type {AnswerForm} */
export const tagsForm = {
  title: 'Tags',
  top: (answer) => /** @type {Tags} */ (answer).words.map(({ tag }) => tag).join(' '),
  body: (answer, before) => {
    const tags = tagList(/** @type {Tags} */ (answer), /** @type {Tags | null} */ (before));
    return before ? beside(tagList(/** @type {Tags} */ (before), null), tags) : [tags];
  },
};

/** @type {AnswerForm} */
export const spanForm = {
  title: 'Answer found in the text',
  top: (answer) => answer.text,
  body: (answer, before) => [
    ...besideText(answer.text ?? '', before && (before.text ?? '')),
    element('p', { class: 'hint' }, `probability ${percent(/** @type {Span} */ (answer).probability)}`),
  ],
};

/** @param {Embedding} answer */
const embedded = ({ vector, similarity }) => [
  similarity === null ? null : element('p', { class: 'answer-text' }, `cosine similarity ${similarity.toFixed(3)}`),
  vectorBars(vector, 'product', `The embedding: ${vector.length} numbers`),
  element('p', { class: 'hint' }, `${vector.length} numbers, a vector of length 1`),
];

/** @type {AnswerForm} */
export const embeddingForm = {
  title: 'Sentence embedding',
  body: (answer, before) => {
    const now = element('div', {}, embedded(/** @type {Embedding} */ (answer)));
    return before ? beside(element('div', {}, embedded(/** @type {Embedding} */ (before))), now) : [now];
  },
};
