// A look in one file: opens from disk, with no server and no request.

import { element, button } from './dom.js';
import { EmbeddedSource } from './embedded.js';
import { loader } from './loader.js';
import { mountLook } from './look.js';
import { mediumOf } from './media/index.js';
import { savedView } from './permalink.js';
import { createStore } from './store.js';
import { followTheme } from './theme.js';

function startAlone() {
  const raw = JSON.parse(document.getElementById('regard-data')?.textContent ?? '');
  const { model, input } = raw.document;
  const embedded = new EmbeddedSource(raw);
  const saved = savedView(document.body.dataset);
  if (saved.tab && !embedded.can.analyse(saved.tab)) delete saved.tab;
  const state = createStore({ ...saved, model: model.name, input });
  const root = document.body;
  const switchTheme = followTheme(root, state);
  const holder = element('main', { id: 'look' });
  root.append(
    element(
      'header',
      { class: 'top' },
      element(
        'h1',
        {},
        element('span', { class: 'wordmark' }, 'regard'),
        ' ',
        element('span', { class: 'subtitle' }, 'look inside'),
      ),
      element('p', { class: 'model' }, [model.title, mediumOf(input).describe(input)].filter(Boolean).join(' · ')),
      element('nav', { 'aria-label': 'Page' }, button('plain', 'Light or dark', switchTheme)),
    ),
    holder,
    element(
      'footer',
      { class: 'bottom' },
      element(
        'p',
        {},
        'Saved view: maps in half precision, queries, keys and values in single precision. The rest is computed in your browser.',
      ),
    ),
  );
  mountLook(holder, state, embedded);
  loader(state, embedded);
  state.watch(['sheet'], ({ sheet }) => sheet && (root.dataset.ready = ''));
}

startAlone();
