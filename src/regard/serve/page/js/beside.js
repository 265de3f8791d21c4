// Answers before and after a change, side by side: sentences with their differences marked, names with their chances.

import { chances, chancesBeside } from './chances.js';
import { element } from './dom.js';

/** Which words of two sentences belong together: the longest common part, as sets of places.
    @param {string[]} first @param {string[]} second */
export function commonWords(first, second) {
  const table = Array.from({ length: first.length + 1 }, () => new Uint16Array(second.length + 1));
  for (let i = first.length - 1; i >= 0; i -= 1)
    for (let j = second.length - 1; j >= 0; j -= 1)
      table[i][j] = first[i] === second[j] ? table[i + 1][j + 1] + 1 : Math.max(table[i + 1][j], table[i][j + 1]);
  const kept = [new Set(), new Set()];
  for (let i = 0, j = 0; i < first.length && j < second.length;) {
    if (first[i] === second[j]) {
      kept[0].add(i++);
      kept[1].add(j++);
    } else if (table[i + 1][j] >= table[i][j + 1]) i += 1;
    else j += 1;
  }
  return kept;
}

/** @param {string} text */
const wordsIn = (text) => text.split(/\s+/).filter(Boolean);

const nothing = () => element('span', { class: 'hint' }, '(empty)');

/** @param {string} text @param {Set<number>} kept @param {'del' | 'ins'} tag */
function sentence(text, kept, tag) {
  const nodes = wordsIn(text).flatMap((word, index) => [kept.has(index) ? word : element(tag, {}, word), ' ']);
  return element('p', { class: 'answer-text' }, nodes.length ? nodes : nothing());
}

/** @param {Child} before @param {Child} after */
export function beside(before, after) {
  return [
    element('div', { class: 'answer-side' }, element('h3', {}, 'before'), before),
    element('div', { class: 'answer-side' }, element('h3', {}, 'with the changes'), after),
  ];
}

/** A text that was written; with the one before, what went and what came.
    @param {string} text @param {string | null} before */
export function besideText(text, before) {
  if (before === null) return [element('p', { class: 'answer-text' }, text || nothing())];
  const [old, now] = commonWords(wordsIn(before), wordsIn(text));
  return beside(sentence(before, old, 'del'), sentence(text, now, 'ins'));
}

/** @param {Chance[]} list @param {Chance[] | null | undefined} earlier */
const either = (list, earlier) => (earlier?.length && list.length ? chancesBeside(list, earlier) : chances(list));

/** An answer that is a list of names with chances. @param {(answer: Answer) => Chance[]} list */
export const listForm = (list) => ({
  list,
  top: (/** @type {Answer} */ answer) => list(answer)[0]?.[0],
  body: (/** @type {Answer} */ answer, /** @type {Answer | null} */ before) => [either(list(answer), before && list(before))],
});

/** Such a list for each place that was masked. */
export const filledForm = {
  body: (/** @type {Answer} */ answer, /** @type {Answer | null} */ before) =>
    (answer.places ?? []).map((place, index) =>
      element(
        'div',
        { class: 'answer-side' },
        element('h3', {}, `token ${place.token}`),
        either(place.tokens, before?.places?.[index]?.tokens),
      ),
    ),
};
