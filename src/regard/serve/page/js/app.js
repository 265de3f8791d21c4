// The page of `regard serve`: the component, and around it the input line, tour, play, gallery and keyboard.

import { TABS } from './analysis.js';
import { askLine } from './ask.js';
import { candyCorner } from './candy.js';
import { calm } from './dom.js';
import { gallery } from './gallery.js';
import { MOST_CHANGES } from './intervene.js';
import { keyboard } from './keyboard.js';
import { loader } from './loader.js';
import { mountLook } from './look.js';
import { lookupView } from './lookup.js';
import { exampleOf, mediumOf } from './media/index.js';
import { HELD, keepHash, readHash } from './permalink.js';
import { millions } from './picker.js';
import { ServerSource } from './server.js';
import { createStore, INITIAL } from './store.js';
import { followTheme } from './theme.js';
import { sitesAt, timeOf } from './time.js';
import { makeTour } from './tour.js';

const page = document.body;
/** @param {string} name */
const part = (name) => /** @type {HTMLElement} */ (page.querySelector(`[data-part=${name}]`));
const source = new ServerSource();
const store = createStore({ permalink: true });
const toggleTheme = followTheme(page, store);

const AGAIN = 2000; // milliseconds: a server that is busy now may not be then

/** The view that the address means; without one, the first model with its own example. Where there is nothing to show
    yet, it is tried once more by itself, and then by the button. */
async function restore(retry = true) {
  /** @type {ModelRow[]} */
  let models;
  try {
    models = await source.models();
  } catch (error) {
    const blank = !store.state.model;
    store.set({ error: `${/** @type {Error} */ (error).message}${blank && !retry ? ' Press Run to try again.' : ''}` });
    if (blank && retry) setTimeout(() => store.state.model || restore(false), AGAIN);
    return;
  }
  const { patch, given } = readHash(location.hash);
  const many = (patch.changes?.length ?? 0) > MOST_CHANGES;
  if (many) patch.changes = patch.changes?.slice(0, MOST_CHANGES);
  const model =
    models.find((one) => one.name === patch.model) ?? models.find((one) => one.source === 'shipped') ?? models[0];
  if (!model) return store.set({ error: 'The server has no models.' });
  const known = patch.model === undefined || patch.model === model.name;
  const fresh = Object.fromEntries(
    HELD.filter((name) => name !== 'model' && name !== 'input').map((name) => [name, INITIAL[name]]),
  );
  const example = exampleOf(model);
  store.set({
    ...fresh,
    ...(known ? patch : {}),
    model: model.name,
    input: known ? mediumOf(example).restore(example, given) : example,
  });
  const lost = many ? `The link contains more than ${MOST_CHANGES} changes; only the first ${MOST_CHANGES} are applied.` : '';
  store.set({ notice: known ? lost : `Unknown model ${patch.model}; showing ${model.name} instead.` });
}

part('ask').replaceChildren(askLine(store, source, () => restore(false)));
mountLook(part('look'), store, source);
part('play').append(lookupView(), candyCorner());
part('gallery').append(gallery(source));
store.watch(['look'], ({ look }) => {
  if (!look) return;
  const { model } = look.document;
  const sites = sitesAt(look.document.sites, timeOf(look.document, null));
  const heads = sites.reduce((sum, site) => sum + site.heads, 0);
  part('model').textContent = [
    `${sites.length} attention layers, ${heads} heads`,
    model.parameters && `${millions(model.parameters)} parameters`,
  ]
    .filter(Boolean)
    .join(' · ');
  document.title = `${model.title} · regard`;
  page.dataset.ready = '';
});

const tour = makeTour(store, page, source);
const keys = keyboard(store, { page, tour, toggleTheme, tabs: TABS });
page.append(tour.root, keys.dialog);
for (const link of /** @type {NodeListOf<HTMLAnchorElement>} */ (page.querySelectorAll('.skip, .top a[href^="#"]'))) {
  link.addEventListener('click', (event) => {
    event.preventDefault(); // the address holds the view, not the place on the page
    const target = /** @type {HTMLElement} */ (page.querySelector(link.hash));
    target.scrollIntoView({ behavior: calm() ? 'auto' : 'smooth' });
    target.focus({ preventScroll: true });
  });
}
part('tour').addEventListener('click', tour.start);
part('keys').addEventListener('click', keys.open);
part('theme').addEventListener('click', toggleTheme);
loader(store, source);
restore().then(() => keepHash(store, () => restore()));
