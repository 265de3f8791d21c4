// The same component in a notebook, as an anywidget module. Python holds `data` (a look with its numbers) and the view.

import { EmbeddedSource } from './js/embedded.js';
import { loader } from './js/loader.js';
import { mountLook, PARTS } from './js/look.js';
import { createStore } from './js/store.js';
import { followTheme } from './js/theme.js';

/** @type {(keyof State)[]} */
const SHARED = ['site', 'head', 'view', 'query', 'key', 'withSite', 'withHead', 'contrast', 'changes'];

/** Traits go both ways: choosing a head in the notebook sets it in Python, and setting it there moves the picture.
    @param {WidgetModel} model @param {Store} store */
function connect(model, store) {
  const stops = SHARED.map((name) => {
    const receive = () => store.set({ [name]: model.get(name) });
    model.on(`change:${name}`, receive);
    return () => model.off(`change:${name}`, receive);
  });
  /** @param {State} state */
  const send = (state) => {
    for (const name of SHARED) if (model.get(name) !== undefined) model.set(name, state[name]);
    model.save_changes();
  };
  return [...stops, store.watch(SHARED, send, { now: false })];
}

/** @param {{ model: WidgetModel; el: HTMLElement }} facts */
function render({ model, el }) {
  const data = model.get('data');
  const source = new EmbeddedSource(data);
  const given = SHARED.filter((name) => model.get(name) !== undefined && model.get(name) !== null);
  const store = createStore({
    ...Object.fromEntries(given.map((name) => [name, model.get(name)])),
    model: data.document.model.name,
    input: data.document.input,
  });
  const root = document.createElement('div');
  root.className = 'regard';
  el.append(root);
  /** @type {(() => void)[]} */
  let stops = [];
  const start = () => {
    if (!root.isConnected) return requestAnimationFrame(start); // some notebooks attach the element later
    followTheme(root, store);
    mountLook(root, store, source, model.get('parts') ?? PARTS);
    loader(store, source);
    stops = connect(model, store);
  };
  start();
  return () => stops.forEach((stop) => stop());
}

export default { render };
