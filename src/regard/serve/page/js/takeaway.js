// What can be taken away from the view: a link, Python, PNG, SVG, CSV, a file that opens by itself.

import { changedName, changedWords } from './changed.js';
import { button, element } from './dom.js';
import { linesFigure, mapFigure, matrixText, rasterise } from './figure.js';
import { currentMatrix } from './matrix.js';
import { fitsAddress, withView, writeHash } from './permalink.js';
import { pythonFor } from './python.js';
import { inWords } from './source.js';

/** @param {Store} store @param {Source} source */
export function takeAway(store, source) {
  const said = element('span', { class: 'said', role: 'status' });
  let timer = 0;
  /** @param {string} words */
  const say = (words) => {
    said.textContent = words;
    clearTimeout(timer);
    timer = setTimeout(() => (said.textContent = ''), Math.max(2500, 60 * words.length)); // long enough to be read
  };

  /** @param {string} words @param {string} done */
  async function copy(words, done) {
    try {
      await navigator.clipboard.writeText(words);
      say(done);
    } catch {
      say('The browser blocked copying.');
    }
  }

  /** What is on the screen; these actions wait until there is something. */
  const onScreen = () => /** @type {Matrix} */ (currentMatrix(store.state));

  function drawing() {
    const matrix = onScreen();
    const facts = {
      ...matrix,
      colours: store.state.colours,
      title: `${matrix.look.document.model.title} · ${matrix.name}`,
      note: changedWords(matrix.look),
    };
    return store.state.view === 'lines' && matrix.sheet.exact ? linesFigure(facts) : mapFigure(facts);
  }

  /** @param {Blob} blob @param {string} ending */
  function save(blob, ending, note = '') {
    const { site, head, view, sheet } = store.state;
    const parts = ['regard', site, head, view, sheet ? changedName(sheet.look) : ''].filter((part) => part !== '');
    const link = element('a', {
      href: URL.createObjectURL(blob),
      download: `${parts.join('-')}.${ending}`,
    });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    say(`Saved ${link.download}${note}`);
  }

  const actions = {
    link: () =>
      copy(
        `${location.href.split('#')[0]}${writeHash(store.state)}`,
        !store.state.input || fitsAddress(store.state.input) ? 'Link copied' : 'Link copied without the image, which is too large',
      ),
    python: () => copy(pythonFor(store.state), 'Python copied'),
    png: async () => save(await rasterise(await drawing()), 'png'),
    svg: async () => save(new Blob([await drawing()], { type: 'image/svg+xml' }), 'svg'),
    html: async () => save(await withView(await onScreen().look.page(), store.state), 'html'),
    csv: () => {
      const matrix = onScreen();
      const note = matrix.sheet.exact ? '' : ': only the row of the selected query, because the map is too large';
      save(new Blob([matrixText(matrix)], { type: 'text/csv' }), 'csv', note);
    },
  };
  /** @param {keyof typeof actions} name @param {string} words */
  const act = (name, words) =>
    button('plain', words, () => store.state.sheet && tried(actions[name]), { 'data-action': name });
  /** @param {() => unknown} action */
  const tried = async (action) => {
    try {
      await action();
    } catch (error) {
      say(inWords(error, 'This view cannot be saved in this format.'));
    }
  };
  return element(
    'div',
    { class: 'take', role: 'group', 'aria-label': 'Export' },
    store.state.permalink ? act('link', 'Copy link') : null,
    act('python', 'Copy as Python'),
    element('span', { class: 'take-gap' }),
    act('png', 'PNG'),
    act('svg', 'SVG'),
    act('csv', 'CSV'),
    source.can.exportPage ? act('html', 'HTML') : null,
    said,
  );
}
