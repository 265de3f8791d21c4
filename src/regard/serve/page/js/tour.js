// A walk through attention on live numbers, at the site that is open.

import { button, calm, element, fresh, largest } from './dom.js';
import { mediumOf } from './media/index.js';
import { facts, STEPS } from './steps.js';

/** A site whose cells can be taken apart: the one in force, or the last that has an arithmetic.
    @param {State} facts */
function teachable({ look, site }) {
  const sites = look?.document.sites.filter((one) => one.arithmetic) ?? [];
  return sites.find((one) => one.name === site) ?? sites.at(-1) ?? null;
}

/** Whether two inputs say the same. @param {Input | null | undefined} first @param {Input | null} second */
const alike = (first, second) =>
  !first || !second || mediumOf(second).describe(first) === mediumOf(second).describe(second);

/** Wait until the cell that is open is the one that was asked for. @param {Store} store */
function settled(store, limit = 6000) {
  const start = performance.now();
  return new Promise((resolve) => {
    const check = () => {
      const { cell, site, head, query, key, look, input } = store.state;
      const there =
        Boolean(look && input) &&
        alike(look?.document.input, input) &&
        cell?.look === look &&
        cell.site === site &&
        cell.head === head &&
        cell.query === query &&
        cell.key === key;
      if (there || performance.now() - start > limit) resolve(there);
      else setTimeout(check, 30);
    };
    check();
  });
}

/** @param {Store} store @param {HTMLElement} page @param {Source} source */
export function makeTour(store, page, source) {
  let index = -1;
  /** @type {HTMLElement | null} */
  let back = null;
  const title = element('h2', { id: fresh('tour'), tabindex: -1 });
  const text = element('p', { class: 'prose', 'aria-live': 'polite' });
  const count = element('span', { class: 'tour-count' });
  const marks = element(
    'span',
    { class: 'tour-marks', 'aria-hidden': 'true' },
    STEPS.map(() => element('span')),
  );
  const examples = element('div', { class: 'tour-examples', role: 'group', 'aria-label': 'Sentences from the lectures' });
  const previous = button('plain', 'Back', () => go(index - 1));
  const next = button('strong', 'Next', () => go(index + 1));
  const root = element(
    'section',
    { class: 'tour', role: 'dialog', 'aria-labelledby': title.id, hidden: true },
    element(
      'div',
      { class: 'tour-top' },
      count,
      marks,
      button('plain', 'Close', () => stop()),
    ),
    title,
    text,
    examples,
    element('div', { class: 'row end' }, previous, next),
  );

  const unspot = () => page.querySelector('[data-spot]')?.removeAttribute('data-spot');

  function stop() {
    index = -1;
    root.hidden = true;
    unspot();
    back?.focus();
  }

  /** The tour begins anew on a sentence of the lectures. @param {string} sentence */
  async function take(sentence) {
    const { input } = store.state;
    if (!input) return;
    store.set({ input: mediumOf(input).restore(input, { text: sentence }), changes: [], choose: true });
    if ((await settled(store)) && index === 0) show(STEPS[0]); // who has gone on meanwhile goes on
  }

  /** At the first step, for a model that reads them. */
  async function offer() {
    examples.hidden = true;
    if (index !== 0) return;
    const models = await source.models();
    const own = models.find((one) => one.name === store.state.model);
    if (index !== 0 || !own?.lectures.length) return;
    examples.replaceChildren(
      element('p', { class: 'hint' }, 'Or use a sentence from the lectures:'),
      ...own.lectures.map((sentence) => button('plain', sentence, () => take(sentence))),
    );
    examples.hidden = false;
  }

  /** Where the query looks most: a cell that is worth taking apart. @param {Site} site */
  async function begin(site) {
    const head = store.state.head === 'mean' || store.state.site !== site.name ? 0 : store.state.head;
    const query = store.state.site === site.name ? store.state.query : 0;
    const sheet = await store.state.look?.sheet(site.name, head);
    if (!sheet) return;
    const row = sheet.row(Math.min(query, sheet.rows - 1));
    const kept = store.state.site === site.name && (row?.[store.state.key] ?? 0) > 0;
    store.set({
      site: site.name,
      head,
      query,
      key: kept || !row ? store.state.key : largest(row),
      view: 'map',
      hover: null,
    });
  }

  /** @param {number} to */
  async function go(to) {
    if (to >= STEPS.length || !store.state.look) return stop();
    if (index < 0) back = /** @type {HTMLElement | null} */ (document.activeElement);
    const first = index < 0;
    index = Math.max(0, to);
    const site = teachable(store.state);
    if (!site) {
      root.hidden = false;
      title.textContent = 'No attention weights';
      text.textContent =
        'This model mixes positions without queries and keys, so the tour cannot explain its weights. Choose another model for the tour.';
      next.disabled = previous.disabled = true;
      return;
    }
    if (first || store.state.head === 'mean') await begin(site); // a mean has no cell to take apart
    if (!(await settled(store)) || index < 0) return;
    show(STEPS[index]);
  }

  /** @param {Step} step */
  function show(step) {
    root.hidden = false;
    title.textContent = step.title;
    const { cell, sheet } = store.state;
    const own = sheet?.look === cell?.look && sheet?.site === cell?.site && sheet?.head === cell?.head ? sheet?.sheet : undefined;
    text.textContent = cell?.numbers.scores ? step.text(facts(cell, own)) : '';
    count.textContent = `${index + 1} of ${STEPS.length}`;
    [...marks.children].forEach((mark, place) => mark.toggleAttribute('data-on', place <= index));
    previous.disabled = index === 0;
    next.disabled = false;
    next.textContent = index === STEPS.length - 1 ? 'Finish' : 'Next';
    offer().catch(() => {});
    unspot();
    const spot = page.querySelector(step.part) ?? page.querySelector(step.part.split(' ')[0]);
    if (!spot) return;
    spot.setAttribute('data-spot', '');
    const bounds = spot.getBoundingClientRect();
    root.toggleAttribute('data-left', bounds.left > innerWidth / 2); // never stand on what is being shown
    spot.scrollIntoView({ block: innerWidth < 720 ? 'start' : 'center', behavior: calm() ? 'auto' : 'smooth' });
    title.focus({ preventScroll: true });
  }

  root.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') stop();
    if (event.key === 'ArrowRight') go(index + 1);
    if (event.key === 'ArrowLeft') go(index - 1);
  });
  return { root, start: () => go(0), running: () => index >= 0, stop };
}
