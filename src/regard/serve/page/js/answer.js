// What the model said: and beside it, where something was changed, what it said before, with the differences marked.

import { movers } from './chances.js';
import { element } from './dom.js';
import { formOf } from './media/index.js';

/** @param {Answer} answer @param {Answer | null} before */
function bodyOf(answer, before) {
  return formOf(answer)?.body(answer, before?.kind === answer.kind ? before : null) ?? [];
}

/** What stayed and what did not; screen readers hear it when it changes. @param {LookDocument} facts */
function verdict({ answer, before, changes }) {
  const form = formOf(answer);
  if (!changes.length || !before || !form?.top || before.kind !== answer.kind) return '';
  const top = form.top(answer);
  if (top === undefined) return '';
  const moved = form.list ? movers(form.list(answer), form.list(before)) : '';
  const stays = top === form.top(before);
  return `${stays ? 'The answer does not change' : 'The answer changes'}${moved && `: ${moved}`}.`;
}

/** The same beside the controls that change it: the answer may be far up the page. @param {Store} store */
export function changedAnswer(store) {
  const body = element('div', { class: 'answer-body' });
  const said = element('p', { class: 'hint' });
  const root = element('div', { class: 'answer echo' }, body, said);
  store.watch(['look'], ({ look }) => {
    root.hidden = !look?.document.before;
    if (!look?.document.before) return body.replaceChildren();
    body.replaceChildren(...bodyOf(look.document.answer, look.document.before));
    said.textContent = verdict(look.document);
  });
  return root;
}

/** @param {Store} store */
export function answerView(store) {
  const title = element('h2');
  const body = element('div', { class: 'answer-body' });
  const said = element('p', { class: 'hint', role: 'status' });
  const root = element('section', { class: 'answer', 'aria-label': 'Answer' }, title, body, said);
  store.watch(['look', 'colours'], ({ look }) => {
    const form = look && formOf(look.document.answer);
    root.hidden = !form;
    if (!form) return;
    title.textContent = form.title;
    body.replaceChildren(...bodyOf(look.document.answer, look.document.before));
    said.textContent = verdict(look.document);
  });
  return root;
}
