// How one cell came to be: q·k, the scale, the bias, the mask, softmax over the row, and what the value brings.

import { headWord, labelsOf, sentenceCase, wordsFor } from './axes.js';
import { button, calm, element, fromTo, furthest, hasSign, number, percent, signed, tableBehind } from './dom.js';
import { inForce } from './matrix.js';
import { rowOfBars } from './vectors.js';
import { carried, heatOf, multiplied, normalised, scaled, takeApart } from './working.js';

/** The keys of a row, each with its score and its weight. @param {CellFacts} facts */
const rowsIn = ({ labels, numbers, share }) =>
  labels.map((label, index) => {
    const score = numbers.scores?.[index];
    const told = score === null ? 'masked' : score === undefined ? '' : number(score);
    const weight = numbers.weights[index];
    return [`${index} ${label}`, told, share ? percent(weight, 2) : weight.toPrecision(3)];
  });

/** @param {Store} store */
export function arithmetic(store) {
  const body = element('div');
  const title = element('h2', { tabindex: -1 });
  const place = element('p', { class: 'hint' });
  /** @type {CellFacts | null} */
  let facts = null;
  const behind = tableBehind(
    'Table of this row',
    () =>
      facts && {
        caption: `Query ${facts.rowName}: scores and weights`,
        columns: ['key', 'score', 'weight'],
        rows: rowsIn(facts),
      },
  );

  /** @param {OpenCell} cell */
  function explain(cell) {
    const { axes } = cell.look.document;
    const site = cell.look.at(cell.site);
    const heat = heatOf(cell.look.document.changes, cell.site);
    const [rowName, columnName] = [wordsFor(axes[site.rows], cell.query), wordsFor(axes[site.columns], cell.key)];
    const { numbers, key } = cell;
    const signs = hasSign(numbers.weights);
    const share = site.kind === 'weights' && !signs;
    facts = { site, heat, key, numbers, rowName, columnName, share, labels: labelsOf(axes[site.columns]) };
    if (!numbers.scores)
      return [
        element(
          'p',
          { class: 'prose' },
          share || signs
            ? 'This mechanism does not compute q·k. Its weight is '
            : 'This layer has no attention weights. The influence is ',
          element('b', {}, share ? percent(numbers.weight) : signs ? signed(numbers.weight) : numbers.weight.toPrecision(3)),
          '.',
        ),
        element('p', { class: 'formula' }, numbers.equation ?? ''),
        rowOfBars(share ? numbers.weights : scaledDown(numbers.weights), key, facts.labels, share ? percent : String),
      ];
    const whole = /** @type {WholeCell} */ (numbers);
    const parts = takeApart(whole, key, heat);
    const { gap } = parts;
    const work = { ...facts, numbers: whole, parts };
    const crossed = cell.look.document.changes.some((one) => one.kind === 'token');
    return [
      element(
        'ol',
        { class: 'steps' },
        multiplied(work),
        scaled(work),
        normalised(work),
        carried(work),
        element(
          'li',
          { class: 'check' },
          `The model’s own weight is ${percent(numbers.weight)}; the two differ by ${gap < 1e-6 ? 'less than 1e-6' : gap.toExponential(0)}.${gap > 1e-3 && crossed ? ' Tokens are masked.' : ''}`,
        ),
      ),
    ];
  }

  /** @param {Force} force */
  function averaged(force) {
    return element(
      'div',
      {},
      element(
        'p',
        { class: 'prose' },
        `A mean of ${force.site.heads} heads has no q·k of its own. Select a head to see how its weight is computed.`,
      ),
      element(
        'ul',
        { class: 'parts' },
        Array.from({ length: force.site.heads }, (_, head) =>
          element(
            'li',
            {},
            button('', `head ${head}`, () => store.set({ head })),
          ),
        ),
      ),
    );
  }

  /** @param {State} state */
  function draw(state) {
    const force = inForce(state);
    if (!force) return;
    const { cell } = state;
    const whole = state.head === 'mean';
    const shown = whole ? { look: force.look, site: force.site.name, query: force.query, key: force.key } : cell;
    if (!shown) return;
    const site = shown.look.at(shown.site);
    const { axes } = shown.look.document;
    title.replaceChildren(
      element('span', {}, fromTo(wordsFor(axes[site.rows], shown.query), wordsFor(axes[site.columns], shown.key))),
    );
    place.textContent = sentenceCase(headWord(site, whole || !cell ? 'mean' : cell.head));
    body.replaceChildren(...(whole || !cell ? [averaged(force)] : explain(cell)));
    behind.root.hidden = whole;
    behind.refresh();
  }

  store.watch(['cell', 'head', 'sheet'], draw);
  store.watch(['hover'], ({ hover }) => {
    const axis = facts?.site.columns;
    body
      .querySelectorAll('.softmax span')
      .forEach((/** @type {any} */ bar) =>
        bar.toggleAttribute(
          'data-hover',
          hover?.key?.axis === axis && String(hover?.key?.position) === bar.dataset.place,
        ),
      );
  });
  const root = element(
    'section',
    { class: 'card cell', 'aria-label': 'Computation of one weight' },
    element('header', {}, title, place),
    body,
    behind.root,
  );
  store.watch(['opened'], ({ opened }) => {
    if (!opened) return;
    title.focus({ preventScroll: true });
    root.scrollIntoView({ block: 'nearest', behavior: calm() ? 'auto' : 'smooth' });
  });
  store.set({ opened: 0 });
  return root;
}

/** Influences as parts of the largest, so that they can be drawn as bars. @param {number[]} values */
function scaledDown(values) {
  const top = furthest(values) || 1;
  return values.map((value) => Math.abs(value) / top);
}
