// The lectures' figures: each with its claim, what was expected and found, the verdict, and the command that makes it.

import { button, element, plural } from './dom.js';

const FIRST = 12;
const ENDS = 'conclusions';
const VERDICTS = ['confirmed', 'partly', 'contradicted', 'quoted'];

/** @param {FigureCheck} check */
function checkLine({ name, got, expected, ok }) {
  const number = typeof got === 'number' && !Number.isInteger(got) ? Number(got.toPrecision(4)) : got;
  return element(
    'li',
    { class: ok ? 'holds' : 'fails' },
    element('span', { class: 'check-mark' }, ok ? '✓' : '✗'),
    `${name}: `,
    element('b', {}, String(number)),
    ` (${expected})`,
  );
}

/** What was never computed in full has no picture: nothing is asked for.
    @param {LectureFigure} figure @param {FigureSource} source */
function drawnFigure({ id, title, claim, verdict }, source) {
  if (verdict === null) return element('p', { class: 'figure-none hint' }, 'Not computed yet.');
  const image = element('img', {
    src: source.figureAddress(id),
    loading: 'lazy',
    decoding: 'async',
    width: 480,
    height: 300,
    alt: `${title}. ${claim}`,
  });
  return element(
    'a',
    {
      class: 'figure-large',
      href: source.figureAddress(id),
      target: '_blank',
      rel: 'noopener',
      'aria-label': `${title}. ${claim} Open in a new tab`,
    },
    image,
  );
}

const TINTS = /** @type {Record<string, string>} */ ({ confirmed: 'holds', contradicted: 'fails' });

/** "confirmed", with the random seeds that agree if there were several. @param {LectureFigure} figure */
function badgeOf({ verdict, agreement }) {
  const words = agreement ? `${verdict} (${agreement} seeds)` : (verdict ?? 'not computed');
  return element('span', { class: `badge ${TINTS[verdict ?? ''] ?? ''}` }, words);
}

/** @param {LectureFigure} figure @param {FigureSource} source */
function cardOf(figure, source) {
  const { deck, title, claim, command, conclusion, expected, found, stale, checks } = figure;
  return element(
    'figure',
    { class: 'card figure' },
    drawnFigure(figure, source),
    element(
      'figcaption',
      {},
      element(
        'p',
        { class: 'figure-head' },
        element('b', {}, title),
        badgeOf(figure),
      ),
      conclusion ? element('p', { class: 'hint' }, `Conclusion of the lecture: “${conclusion}”`) : null,
      element('p', {}, claim),
      expected === claim ? null : element('p', { class: 'hint' }, `Expected: ${expected}`),
      found ? element('p', { class: 'hint' }, `Found: ${found}`) : null,
      stale ? element('p', { class: 'hint' }, 'Outdated: the code has changed since this was computed.') : null,
      element(
        'details',
        { class: 'behind' },
        element('summary', {}, plural(checks?.length ?? 0, 'check')),
        element('ul', { class: 'checks' }, (checks ?? []).map(checkLine)),
      ),
      element(
        'p',
        { class: 'figure-foot' },
        element('code', {}, command),
        element('span', { class: 'hint' }, deck ? `deck ${deck}` : ''),
      ),
    ),
  );
}

/** @param {FigureSource} source */
export function gallery(source) {
  const search = element('input', {
    type: 'search',
    placeholder: 'Search figures',
    'aria-label': 'Search figures',
    onInput: () => fill(),
  });
  const decks = element('select', { 'aria-label': 'Deck', onChange: () => fill() });
  const told = element('p', { class: 'hint', role: 'status' }, 'Loads when scrolled into view.');
  const grid = element('div', { class: 'figures' });
  const more = button('plain', '', () => fill(Infinity));
  const root = element(
    'section',
    { class: 'gallery', 'aria-labelledby': 'gallery-title' },
    element(
      'header',
      {},
      element('div', {}, element('h2', { id: 'gallery-title' }, 'Lecture figures'), told),
      element('div', { class: 'row' }, search, decks),
    ),
    grid,
    element('div', { class: 'row gallery-more' }, more),
  );
  let figures = /** @type {LectureFigure[]} */ ([]);
  more.hidden = true;

  function fill(limit = FIRST) {
    const words = search.value.trim().toLowerCase().split(/\s+/);
    const fits = (/** @type {LectureFigure} */ one) =>
      words.every((word) => `${one.id} ${one.title} ${one.claim}`.toLowerCase().includes(word)) &&
      (!decks.value || (decks.value === ENDS ? one.conclusion : one.deck.split(' ').includes(decks.value)));
    const found = figures.filter(fits);
    const computed = found.filter((one) => one.verdict !== null);
    const others = found.length - computed.length;
    const counts = VERDICTS.map((word) => [computed.filter((one) => one.verdict === word).length, word]);
    const verdicts = counts.filter(([count]) => count).map(([count, word]) => `${count} ${word}`);
    told.textContent = [
      `${plural(computed.length, 'computed figure')}${verdicts.length ? ': ' : ''}${verdicts.join(', ')}.`,
      others ? `${others} more are not computed yet.` : '',
    ].join(' ');
    grid.replaceChildren(...found.slice(0, limit).map((one) => cardOf(one, source)));
    more.hidden = found.length <= limit;
    more.textContent = `Show all ${found.length}`;
  }

  new IntersectionObserver(
    async ([entry], watcher) => {
      if (!entry.isIntersecting) return;
      watcher.disconnect();
      try {
        figures = await source.figures();
      } catch (error) {
        told.textContent = /** @type {Error} */ (error).message;
        return;
      }
      const names = [...new Set(figures.flatMap((one) => one.deck.split(' ')))].filter(Boolean).sort();
      decks.replaceChildren(
        element('option', { value: '' }, 'all decks'),
        element('option', { value: ENDS }, 'conclusions of the lectures'),
        ...names.map((name) => element('option', { value: name }, `deck ${name}`)),
      );
      fill();
    },
    { rootMargin: '300px' },
  ).observe(root);
  return root;
}
