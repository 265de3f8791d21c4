// What was read and written, with the row of the chosen query: bars over tokens, or an overlay on a picture.
// Where rows and columns are different things (a translation, a caption), both stand here, the columns above.

import { headWord, wordsFor } from './axes.js';
import { element, largest, percent, role, signed } from './dom.js';
import { OVERS } from './light.js';
import { inForce } from './matrix.js';
import { placesOf, stripOf } from './media/index.js';
import { wordView } from './wordmap.js';

/** How the caption speaks of a row, by the kind of its map. @type {Record<string, [string, string, string, (value: number) => string]>} */
const WORDS_OF = {
  weights: ['Query ', ' in ', ' attends most to ', (weight) => `: ${percent(weight)}.`],
  influence: [
    'Output ',
    ' in ',
    ' depends most on ',
    (norm) => `: ${norm.toPrecision(3)} (the norm of dy/dx; rows do not sum to 1).`,
  ],
  signed: [
    'Query ',
    ' in ',
    ' has its largest absolute weight at ',
    (weight) => `: ${signed(weight)} (signed weights; rows do not sum to 1).`,
  ],
};

/** @param {Store} store */
export function sentenceView(store) {
  const holder = element('div', { class: 'sentence-strips' });
  const caption = element('p', { class: 'strip-caption', 'aria-live': 'polite' });
  /** @type {(Strip & { name: string; whole: HTMLElement })[]} */
  let strips = [];
  /** @type {{ look?: LookLike; rows?: string; columns?: string; kind?: string }} */
  let built = {};

  /** @param {LookLike} look @param {string} name @param {Omit<Roles, 'look'>} roles */
  function stripFor(look, name, roles) {
    const axis = look.document.axes[name];
    const strip = stripOf(look, axis)(store, name, axis, { ...roles, look });
    const label = element('span', { class: 'strip-label' }, name.includes('.') ? placesOf(axis)?.many ?? '' : name);
    return { ...strip, name, ...roles, whole: element('div', { class: 'strip-line' }, label, strip.root) };
  }

  /** @param {Force} facts */
  function build({ look, site }) {
    const [share, over] = [site.kind === 'weights', OVERS[site.kind]];
    const alike = site.rows === site.columns;
    const hadFocus = holder.contains(document.activeElement);
    strips = alike
      ? [stripFor(look, site.rows, { chooses: true, bars: true, share, over })]
      : [
          stripFor(look, site.columns, { chooses: false, bars: true, share, over }),
          stripFor(look, site.rows, { chooses: true, bars: false, share, over }),
        ];
    holder.replaceChildren(...strips.map((strip) => strip.whole));
    holder.toggleAttribute('data-pair', !alike);
    built = { look, rows: site.rows, columns: site.columns, kind: site.kind };
    if (hadFocus) /** @type {HTMLElement | null} */ (holder.querySelector('[tabindex="0"]'))?.focus();
  }

  /** @param {State} state */
  function draw(state) {
    const force = inForce(state);
    if (!force) return;
    const { look, site, head, sheet, rowAxis, columnAxis, query, key } = force;
    if (built.look !== look || built.rows !== site.rows || built.columns !== site.columns || built.kind !== site.kind)
      build(force);
    const row = sheet.row(query);
    for (const strip of strips) strip.update(row, query, key);
    if (!row) return;
    const best = largest(site.kind === 'signed' ? row.map(Math.abs) : row);
    const [before, between, most, after] = WORDS_OF[site.kind];
    caption.replaceChildren(
      before,
      role('query', wordsFor(rowAxis, query)),
      between,
      headWord(site, head),
      most,
      role('key', wordsFor(columnAxis, best)),
      after(row[best]),
    );
  }

  store.watch(['sheet', 'arrived', 'query', 'key', 'colours', 'overlay'], draw);
  store.watch(['hover'], ({ hover }) => {
    for (const strip of strips) {
      const marks = [hover?.query, hover?.key].flatMap((place) => (place?.axis === strip.name ? [place.position] : []));
      strip.point(marks);
    }
  });
  return element('section', { class: 'sentence', 'aria-label': 'Input' }, holder, caption, wordView(store));
}
