// What was read and written, with the row of the chosen query: bars over tokens, or an overlay on a picture.
// Where rows and columns are different things (a translation, a caption), both stand here, the columns above.

import { headWord, isPicture, pictureOf, wordsFor } from './axes.js';
import { element, largest, percent, role, signed } from './dom.js';
import { inForce } from './matrix.js';
import { OVERS } from './overlay.js';
import { pictureView } from './picture.js';
import { profileStrip } from './profile.js';
import { tokenStrip } from './strip.js';

const LONG = 160; // tokens; more of them are not written one by one

/** How the caption speaks of a row, by the kind of its map. */
const WORDS_OF = {
  weights: ['Where ', ' looks in ', ': most at ', (weight) => `, ${percent(weight)}.`],
  influence: [
    'What moves ',
    ' in ',
    ': most at ',
    (norm) => `, ${norm.toPrecision(3)} (the norm of dy/dx; it does not sum to one).`,
  ],
  signed: [
    'What ',
    ' takes in ',
    ': furthest from 0 at ',
    (weight) => `, ${signed(weight)} (weights of both signs; they are no shares).`,
  ],
};

export function sentenceView(store) {
  const holder = element('div', { class: 'sentence-strips' });
  const caption = element('p', { class: 'strip-caption', 'aria-live': 'polite' });
  let strips = [];
  let built = {};

  function stripFor(look, name, roles) {
    const axis = look.document.axes[name];
    const drawn = isPicture(axis) && pictureOf(look.document.input);
    const make = drawn ? pictureView : axis.size > LONG ? profileStrip : tokenStrip;
    const strip = make(store, name, axis, { ...roles, look });
    const label = element('span', { class: 'strip-label' }, name);
    return { ...strip, name, ...roles, whole: element('div', { class: 'strip-line' }, label, strip.root) };
  }

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
    if (hadFocus) holder.querySelector('[tabindex="0"]')?.focus();
  }

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
      const marks = [hover?.query, hover?.key].filter((place) => place?.axis === strip.name);
      strip.point(marks.map((place) => place.position));
    }
  });
  return element('section', { class: 'sentence', 'aria-label': 'What it read' }, holder, caption);
}
