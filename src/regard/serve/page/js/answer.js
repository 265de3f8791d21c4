// What the model said: and beside it, where something was changed, what it said before, with the differences marked.

import { chances, chancesBeside, movers } from './chances.js';
import { element, plural } from './dom.js';

/** Which words of two sentences belong together: the longest common part, as pairs of places. */
function commonWords(first, second) {
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

function sentence(text, kept, tag) {
  const words = text.split(/\s+/).filter(Boolean);
  const nodes = words.flatMap((word, index) => [kept.has(index) ? word : element(tag, {}, word), ' ']);
  return element('p', { class: 'answer-text' }, nodes.length ? nodes : element('span', { class: 'hint' }, 'nothing'));
}

function texts(answer, before) {
  const split = (one) => one.text.split(/\s+/).filter(Boolean);
  if (!before)
    return [element('p', { class: 'answer-text' }, answer.text || element('span', { class: 'hint' }, 'nothing'))];
  const [old, now] = commonWords(split(before), split(answer));
  return beside(sentence(before.text, old, 'del'), sentence(answer.text, now, 'ins'));
}

function beside(before, after) {
  return [
    element('div', { class: 'answer-side' }, element('h3', {}, 'before'), before),
    element('div', { class: 'answer-side' }, element('h3', {}, 'with the changes'), after),
  ];
}

const TITLES = { text: 'It wrote', labels: 'It sees', next: 'Next token', filled: 'It fills in', boxes: 'It found' };

/** Names with chances, of answers that are such. */
const listOf = (answer) => answer.labels ?? (answer.kind === 'next' ? answer.tokens : null);
const either = (list, earlier) => (earlier?.length && list.length ? chancesBeside(list, earlier) : chances(list));

function bodyOf(answer, before) {
  const same = before?.kind === answer.kind ? before : null;
  if (answer.kind === 'text') return texts(answer, same);
  const list = listOf(answer);
  if (list) return [either(list, same && listOf(same))];
  if (answer.kind === 'filled')
    return answer.places.map((place, index) =>
      element(
        'div',
        { class: 'answer-side' },
        element('h3', {}, `token ${place.token}`),
        either(place.tokens, same?.places[index]?.tokens),
      ),
    );
  if (answer.kind === 'boxes') {
    const counts = (one) => {
      const found = new Map();
      for (const { label } of one.boxes) found.set(label, (found.get(label) ?? 0) + 1);
      return found;
    };
    const words = (one) => [...counts(one)].map(([label, count]) => plural(count, label)).join(', ') || 'nothing';
    return same
      ? beside(element('p', {}, words(same)), element('p', {}, words(answer)))
      : [element('p', {}, words(answer))];
  }
  return [];
}

/** What stayed and what did not; screen readers hear it when it changes. */
function verdict({ answer, before, changes }) {
  if (!changes.length || !before) return '';
  const [now, old] = [listOf(answer), listOf(before)];
  const top = (one, list) => (one.kind === 'text' ? one.text : list?.[0]?.[0]);
  if (top(answer, now) === undefined) return '';
  const same = top(answer, now) === top(before, old);
  const moved = now && old ? movers(now, old) : '';
  return `${same ? 'The answer stays the same' : 'The answer changes'}${moved && `: ${moved}`}.`;
}

/** The same beside the controls that change it: the answer may be far up the page. */
export function changedAnswer(store) {
  const body = element('div', { class: 'answer-body' });
  const said = element('p', { class: 'hint' });
  const root = element('div', { class: 'answer echo' }, body, said);
  store.watch(['look'], ({ look }) => {
    root.hidden = !look?.document.before;
    if (root.hidden) return body.replaceChildren();
    body.replaceChildren(...bodyOf(look.document.answer, look.document.before));
    said.textContent = verdict(look.document);
  });
  return root;
}

export function answerView(store) {
  const title = element('h2');
  const body = element('div', { class: 'answer-body' });
  const said = element('p', { class: 'hint', role: 'status' });
  const root = element('section', { class: 'answer', 'aria-label': 'The answer' }, title, body, said);
  store.watch(['look', 'colours'], ({ look }) => {
    root.hidden = !look || look.document.answer.kind === 'none';
    if (root.hidden) return;
    const { answer, before } = look.document;
    title.textContent = TITLES[answer.kind] ?? 'Answer';
    body.replaceChildren(...bodyOf(answer, before));
    said.textContent = verdict(look.document);
  });
  return root;
}
