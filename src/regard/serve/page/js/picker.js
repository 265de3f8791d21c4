// Which model: a button that opens a list with a search box. What has random weights says so.

import { button, element, fresh } from './dom.js';
import { exampleOf } from './media/index.js';
import { inWords } from './source.js';

const GROUPS = [
  ['shipped', 'Shipped'],
  ['run', 'Your runs'],
  ['zoo', 'Untrained (random weights)'],
];

/** @param {number} count */
export const millions = (count) =>
  count >= 1e6 ? `${(count / 1e6).toFixed(1)} M` : count ? `${Math.round(count / 1e3)} k` : '';

/** @param {Store} store @param {Source} source */
export function modelPicker(store, source) {
  const list = element('ul', { id: fresh('models'), role: 'listbox', class: 'picker-list', 'aria-label': 'Models' });
  const search = element('input', {
    type: 'text',
    class: 'picker-search',
    placeholder: 'Search models',
    role: 'combobox',
    autocomplete: 'off',
    spellcheck: 'false',
    'aria-expanded': 'true',
    'aria-controls': list.id,
    'aria-label': 'Search models',
    onInput: () => fill(),
  });
  const dialog = element('dialog', { class: 'sheet picker', 'aria-label': 'Choose a model' }, search, list);
  const name = element('span', { class: 'picker-name' });
  const open = button('plain picker-open', null, () => show(), { 'aria-haspopup': 'dialog' });
  open.append(name, element('span', { 'aria-hidden': 'true' }, '▾'));
  const note = element('span', { class: 'badge', hidden: true }, 'random weights: this model is not trained');
  /** @type {ModelRow[]} */
  let models = [];
  let marked = 0;
  /** @type {{ model: ModelRow; node: HTMLElement }[]} */
  let shown = [];

  /** @param {ModelRow} model */
  function choose(model) {
    dialog.close();
    if (model.name !== store.state.model)
      store.set({
        model: model.name,
        input: exampleOf(model),
        changes: [],
        notice: '',
        time: null,
        other: null,
        site: null,
        head: 0,
        query: 0,
        key: 0,
        view: store.state.view === 'compare' ? 'map' : store.state.view,
      });
    open.focus();
  }

  /** @param {ModelRow} model */
  function optionOf(model) {
    const node = element(
      'li',
      { id: fresh('model'), role: 'option', class: 'picker-option', onClick: () => choose(model) },
      element('b', {}, model.title),
      element(
        'span',
        { class: 'hint' },
        [model.family, model.task, model.takes, millions(model.parameters)].filter(Boolean).join(' · '),
      ),
    );
    shown.push({ model, node });
    return node;
  }

  function fill() {
    const words = search.value.trim().toLowerCase().split(/\s+/);
    /** @param {ModelRow} model */
    const fits = (model) =>
      words.every((word) =>
        `${model.name} ${model.title} ${model.family} ${model.task ?? ''} ${model.takes}`.toLowerCase().includes(word),
      );
    shown = [];
    const groups = GROUPS.map(([kind, title]) => ({
      title,
      found: models.filter((model) => model.source === kind && fits(model)),
    })).filter(({ found }) => found.length);
    list.replaceChildren(
      ...groups.map(({ title, found }) => {
        const heading = element('span', { id: fresh('group'), class: 'picker-group' }, title);
        return element(
          'li',
          { role: 'presentation' },
          heading,
          element('ul', { role: 'group', 'aria-labelledby': heading.id }, found.map(optionOf)),
        );
      }),
    );
    if (!shown.length)
      list.replaceChildren(
        element(
          'li',
          { role: 'option', 'aria-disabled': 'true', 'aria-selected': 'false', class: 'picker-option hint' },
          'No matching models.',
        ),
      );
    mark(
      Math.max(
        0,
        shown.findIndex(({ model }) => model.name === store.state.model),
      ),
    );
  }

  /** @param {number} index */
  function mark(index) {
    marked = index;
    shown.forEach(({ node }, place) => node.setAttribute('aria-selected', String(place === index)));
    const node = shown[index]?.node;
    node?.scrollIntoView({ block: 'nearest' });
    if (node) search.setAttribute('aria-activedescendant', node.id);
  }

  function show() {
    search.value = '';
    dialog.showModal();
    fill();
    search.focus();
  }

  search.addEventListener('keydown', (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && shown.length) {
      event.preventDefault();
      mark((marked + step + shown.length) % shown.length);
    } else if (event.key === 'Enter' && shown[marked]) {
      event.preventDefault();
      choose(shown[marked].model);
    }
  });
  dialog.addEventListener('click', (event) => event.target === dialog && dialog.close());

  store.watch(['model'], async ({ model }) => {
    try {
      models = await source.models();
    } catch (error) {
      return store.set({ error: inWords(error, 'The models cannot be listed.') });
    }
    const own = models.find((one) => one.name === model);
    name.textContent = own?.title ?? model ?? 'choose a model';
    open.setAttribute('aria-label', `Model: ${name.textContent}. Choose another`);
    note.hidden = own?.source !== 'zoo';
  });
  return { root: element('div', { class: 'picker-holder' }, open, dialog), note, open: show };
}
