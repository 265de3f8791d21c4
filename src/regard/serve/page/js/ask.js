// The input line: the model, and what it is given, by the control of its medium. A file can be dropped or pasted.

import { sizesOf } from './axes.js';
import { element } from './dom.js';
import { mediumOf } from './media/index.js';
import { modelPicker } from './picker.js';
import { Trouble } from './source.js';

/** @param {Store} store @param {Source} source @param {() => unknown} begin */
export function askLine(store, source, begin) {
  const note = element('p', { class: 'hint', role: 'status' });
  const trouble = element('p', { class: 'trouble', role: 'alert', hidden: true });
  const picker = modelPicker(store, source);
  const line = element('div', { class: 'ask-line' }, picker.root);
  /** @type {Map<Medium, Control>} */
  const controls = new Map(); // by medium, each made when it is first needed

  /** Crossed-out places mean nothing in another input; heads and temperature stay. @param {Input} input */
  const give = (input, draft = 0) =>
    store.set({ input, draft, choose: true, changes: store.state.changes.filter((one) => one.kind !== 'token') });

  /** @param {File} file */
  async function take(file) {
    const { input } = store.state;
    if (!input) return;
    const medium = mediumOf(input);
    try {
      const made = await medium.fromFile(file, source, input);
      if (store.state.input === input) give(made); // else another was chosen meanwhile
    } catch (error) {
      store.set({ error: error instanceof Trouble ? error.message : medium.refused });
    }
  }

  /** @param {Medium} medium */
  function controlOf(medium) {
    const known = controls.get(medium);
    if (known) return known;
    const made = medium.control({ store, source, give, take });
    controls.set(medium, made);
    line.append(...made.nodes);
    return made;
  }

  /** @param {Input | null} input */
  function show(input) {
    const own = mediumOf(input);
    const control = controlOf(own);
    for (const [medium, { nodes }] of controls) for (const node of nodes) node.hidden = medium !== own;
    if (input) control.show(input);
  }

  /** The first of some files that what is asked for can be made of. @param {DataTransfer | null} data */
  const fileIn = (data) => {
    const { input } = store.state;
    return input && [...(data?.files ?? [])].find((one) => mediumOf(input).accepts(one));
  };

  const form = element(
    'form',
    {
      class: 'ask',
      onSubmit: (event) => {
        event.preventDefault();
        if (!store.state.model) return begin(); // the list of models did not come
        controlOf(mediumOf(store.state.input)).send();
      },
      onDragover: (event) => event.preventDefault(),
      onDrop: (event) => {
        event.preventDefault(); // else the browser would leave the page for the file
        const found = fileIn(event.dataTransfer);
        if (found) take(found);
      },
    },
    line,
    element('div', { class: 'ask-notes' }, note, picker.note),
    trouble,
  );
  document.addEventListener('paste', (event) => {
    const found = fileIn(event.clipboardData);
    if (found) take(found);
  });

  show(null);
  store.watch(['input'], ({ input }) => input && show(input));
  store.watch(['busy', 'error', 'notice', 'look', 'blank'], ({ busy, error, notice, look: found, blank }) => {
    trouble.hidden = !error && !notice;
    trouble.textContent = error || notice;
    form.toggleAttribute('data-busy', busy);
    document.body.setAttribute('aria-busy', String(busy));
    note.textContent = busy && !found ? 'Running the model…' : blank ? '' : sizesOf(found?.document.axes ?? {});
  });
  return form;
}
