// How one cell came to be: q·k, the scale, the bias, the mask, softmax over the row, and what the value brings.

import { headWord, labelsOf, sentenceCase, wordsFor } from './axes.js';
import { button, calm, element, fromTo, number, percent, tableBehind } from './dom.js';
import { inForce } from './matrix.js';
import { softmax } from './numeric.js';
import { rowOfBars, vectorBars } from './vectors.js';

const stepItem = (name, title, formula, ...rest) =>
  element('li', { 'data-step': name }, element('h3', {}, title), element('p', { class: 'formula' }, formula), rest);

/** The temperature that is in force at a site: the last change that names it wins. */
export function heatOf(changes, site) {
  return changes.findLast((one) => one.kind === 'temperature' && (one.site === site || one.site === '*'))?.value ?? 1;
}

/** All numbers that the steps show, from those of the API. */
export function takeApart(numbers, key, heat) {
  const { weights, powers, total, top } = softmax(numbers.scores.map((score) => (score === null ? null : score / heat)));
  const hidden = numbers.scores.filter((score) => score === null).length;
  const products = Array.from(numbers.query, (value, index) => value * numbers.key[index]);
  const gap = Math.max(...weights.map((weight, index) => Math.abs(weight - numbers.weights[index])));
  return { weights, power: powers[key], total, top, hidden, products, gap };
}

function multiplied({ numbers, parts, rowName, columnName }) {
  const width = numbers.query.length;
  return stepItem(
    'product',
    'Multiply and add',
    ['q · k = ', element('b', {}, number(numbers.product, 2))],
    element(
      'div',
      { class: 'vectors' },
      element('span', { class: 'query' }, 'q'),
      vectorBars(numbers.query, 'query', `query of ${rowName}, ${width} numbers`),
      element('span', { class: 'key' }, 'k'),
      vectorBars(numbers.key, 'key', `key of ${columnName}, ${width} numbers`),
      element('span', {}, 'q×k'),
      vectorBars(parts.products, 'product', `${width} products`),
    ),
  );
}

function scaled({ numbers, heat }) {
  const biased = Math.abs(numbers.bias) > 1e-6;
  const width = numbers.query.length;
  const root = Math.abs(numbers.scale - width ** -0.5) < 1e-6;
  const words = [root ? 'Divide by √d' : 'Scale', biased && 'add the bias', heat !== 1 && 'divide by the temperature'];
  const scale = root ? `/ √${width}` : `× ${numbers.scale.toPrecision(3)}`;
  return stepItem('scale', words.filter(Boolean).join(', '), [
    `${biased && heat !== 1 ? '(' : ''}${number(numbers.product, 2)} ${scale}`,
    biased ? ` ${numbers.bias < 0 ? '−' : '+'} ${Math.abs(numbers.bias).toFixed(3)}${heat !== 1 ? ')' : ''}` : '',
    heat !== 1 ? ` / ${heat}` : '',
    ' = ',
    element('b', {}, number(numbers.score / heat)),
  ]);
}

function normalised({ numbers, parts, heat, key, labels }) {
  if (numbers.masked)
    return stepItem('softmax', 'Masked', ['this key is hidden from this query: ', element('b', { class: 'result' }, percent(0))]);
  const shown = parts.power >= 0.0005 ? parts.power.toFixed(3) : parts.power.toExponential(1);
  return stepItem(
    'softmax',
    parts.hidden ? `Mask ${parts.hidden}, softmax over the rest` : 'Softmax over the row',
    [
      `e^(${number(numbers.score / heat)} − ${number(parts.top)}) = ${shown}`,
      element('br'),
      `${shown} / ${parts.total.toFixed(3)} = `,
      element('b', { class: 'result' }, percent(parts.weights[key])),
    ],
    rowOfBars(parts.weights, key, labels, percent),
  );
}

function carried({ numbers, columnName, rowName }) {
  const share = Array.from(numbers.value, (value) => value * numbers.weight);
  const limit = Math.max(...Array.from(numbers.mixed, Math.abs), ...share.map(Math.abs)) || 1;
  return stepItem(
    'value',
    'Take that much of the value',
    [`${percent(numbers.weight)} of v goes into the sum`],
    element(
      'div',
      { class: 'vectors' },
      element('span', {}, 'w×v'),
      vectorBars(share, 'product', `the weighted value of ${columnName}`, limit),
      element('span', {}, 'Σ w×v'),
      vectorBars(numbers.mixed, 'mixed', `what the head brings for ${rowName}`, limit),
    ),
  );
}

export function arithmetic(store) {
  const body = element('div');
  const title = element('h2', { tabindex: -1 });
  const place = element('p', { class: 'hint' });
  let facts = null;
  const behind = tableBehind('Numbers of this row', () => facts && {
    caption: `Query ${facts.rowName}: scores and weights`,
    columns: ['key', 'score', 'weight'],
    rows: facts.labels.map((label, index) => [
      `${index} ${label}`,
      facts.numbers.scores ? (facts.numbers.scores[index] === null ? 'masked' : number(facts.numbers.scores[index])) : '',
      facts.share ? percent(facts.numbers.weights[index], 2) : facts.numbers.weights[index].toPrecision(3),
    ]),
  });

  function explain(cell) {
    const { axes } = cell.look.document;
    const site = cell.look.sites.get(cell.site);
    const heat = heatOf(cell.look.document.changes, cell.site);
    const [rowName, columnName] = [wordsFor(axes[site.rows], cell.query), wordsFor(axes[site.columns], cell.key)];
    const { numbers, key } = cell;
    const share = site.kind === 'weights';
    facts = { site, heat, key, numbers, rowName, columnName, share, labels: labelsOf(axes[site.columns]) };
    if (!numbers.scores) return [element('p', { class: 'prose' }, share ? 'This mechanism has no q·k to take apart. Its weight is ' : 'This site mixes without weights. The influence is ', element('b', {}, share ? percent(numbers.weight) : numbers.weight.toPrecision(3)), '.'), element('p', { class: 'formula' }, numbers.equation ?? ''), rowOfBars(share ? numbers.weights : scaledDown(numbers.weights), key, facts.labels, share ? percent : String)];
    facts.parts = takeApart(numbers, key, heat);
    const { gap } = facts.parts;
    const crossed = cell.look.document.changes.some((one) => one.kind === 'token');
    return [
      element('ol', { class: 'steps' }, multiplied(facts), scaled(facts), normalised(facts), carried(facts),
        element('li', { class: 'check' }, `The model’s own row says ${percent(numbers.weight)}; the two differ by ${gap < 1e-6 ? 'less than 1e-6' : gap.toExponential(0)}.${gap > 1e-3 && crossed ? ' Tokens are crossed out.' : ''}`)),
    ];
  }

  function averaged(force) {
    return element(
      'div',
      {},
      element('p', { class: 'prose' }, `A mean has no q·k of its own. It is the average of ${force.site.heads} heads; choose one to see its arithmetic.`),
      element('ul', { class: 'parts' }, Array.from({ length: force.site.heads }, (_, head) => element('li', {}, button('', `head ${head}`, () => store.set({ head }))))),
    );
  }

  function draw(state) {
    const force = inForce(state);
    if (!force) return;
    const { cell } = state;
    const whole = state.head === 'mean';
    const shown = whole ? { look: force.look, site: force.site.name, query: force.query, key: force.key } : cell;
    if (!shown) return;
    const site = shown.look.sites.get(shown.site);
    const { axes } = shown.look.document;
    title.replaceChildren(element('span', {}, fromTo(wordsFor(axes[site.rows], shown.query), wordsFor(axes[site.columns], shown.key))));
    place.textContent = sentenceCase(headWord(site, whole ? 'mean' : cell.head));
    body.replaceChildren(...(whole ? [averaged(force)] : explain(cell)));
    behind.root.hidden = whole;
    behind.refresh();
  }

  store.watch(['cell', 'head', 'sheet'], draw);
  store.watch(['hover'], ({ hover }) => {
    const axis = facts?.site.columns;
    body.querySelectorAll('.softmax span').forEach((bar) => bar.toggleAttribute('data-hover', hover?.key?.axis === axis && String(hover?.key?.position) === bar.dataset.place));
  });
  const root = element('section', { class: 'card cell', 'aria-label': 'Arithmetic of one cell' }, element('header', {}, title, place), body, behind.root);
  store.watch(['opened'], ({ opened }) => {
    if (!opened) return;
    title.focus({ preventScroll: true });
    root.scrollIntoView({ block: 'nearest', behavior: calm() ? 'auto' : 'smooth' });
  });
  store.set({ opened: 0 });
  return root;
}

/** Influences as parts of the largest, so that they can be drawn as bars. */
function scaledDown(values) {
  const top = Math.max(...values) || 1;
  return values.map((value) => value / top);
}
