// What was read and written, with the row of the chosen query: bars over tokens, or an overlay on a picture.
// Where rows and columns are different things (a translation, a caption), both stand here, the columns above.

import { headWord, isPicture, pictureOf, wordsFor } from './axes.js';
import { element, largest, percent, role } from './dom.js';
import { inForce } from './matrix.js';
import { pictureView } from './picture.js';
import { profileStrip } from './profile.js';
import { tokenStrip } from './strip.js';

const LONG = 160; // tokens; more of them are not written one by one

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
    const share = site.kind === 'weights';
    const alike = site.rows === site.columns;
    const hadFocus = holder.contains(document.activeElement);
    strips = alike
      ? [stripFor(look, site.rows, { chooses: true, bars: true, share })]
      : [
          stripFor(look, site.columns, { chooses: false, bars: true, share }),
          stripFor(look, site.rows, { chooses: true, bars: false, share }),
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
    const best = largest(row);
    const share = site.kind === 'weights';
    caption.replaceChildren(
      share ? 'Where ' : 'What moves ',
      role('query', wordsFor(rowAxis, query)),
      share ? ' looks in ' : ' in ',
      headWord(site, head),
      ': most at ',
      role('key', wordsFor(columnAxis, best)),
      share ? `, ${percent(row[best])}.` : `, ${row[best].toPrecision(3)} (the norm of dy/dx; it does not sum to one).`,
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
