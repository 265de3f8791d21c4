// Analyses whose finding is a map, or what each position is worth: drawn as any other map, or as bars.

import { isPicture, labelOf, labelsOf, pictureOf, sentenceCase, siteCalled, siteName, wordsFor } from './axes.js';
import { roundLimit, scales } from './colour.js';
import { element, furthest, hasSign, largest, percent, role, signed } from './dom.js';
import { heatMap } from './heatmap.js';
import { SHARES, SIGNED } from './overlay.js';
import { pictureView, stillPicture } from './picture.js';
import { bars } from './plots.js';
import { Sheet } from './sheet.js';

/** Why another stack is shown than that of the chosen site; nothing where it is the same. */
export function insteadOf({ found, force }) {
  if (force.site.role === 'self') return '';
  const { rows } = siteCalled(force.look, found.site);
  const which = rows === force.site.columns ? 'the stack that it looks at' : 'the last stack that does';
  return `${sentenceCase(siteName(force.site))} does not look at its own positions; this is ${which}. `;
}

/** What the answer is that was asked about; of a detector, whose. */
export const askedAbout = ({ found, asked }) => [
  element('b', {}, `“${found.what}”`),
  asked.output === undefined ? '' : `, the likeliest to query ${asked.output}`,
];

/** Differences of log-probabilities. */
export const inNats = (value) => `${signed(value)} nats`;

export const numbered = (count) => Array.from({ length: count }, (_, index) => String(index));
const namesFor = (axis, count) => (axis && axis.size === count ? labelsOf(axis) : numbered(count));

/** One row of what was found, laid over the picture that its columns are; null where they are none. The patch that is
    chosen in it is chosen everywhere. */
function laidOver({ force, store }, site, row, query, over) {
  const { look, key } = force;
  const axis = look.document.axes[site?.columns];
  if (!axis || !isPicture(axis) || !pictureOf(look.document.input) || axis.size !== row.length) return null;
  const chooses = site.rows === site.columns && site.rows === force.site.rows;
  const view = pictureView(store, site.columns, axis, { chooses, bars: true, look, over });
  view.update(row, query, site.columns === force.site.columns ? key : null);
  const on = (place) => place?.axis === site.columns;
  const point = (hover) => view.point([hover?.query, hover?.key].filter(on).map((place) => place.position));
  return { root: view.root, point };
}

/** A map that the API sent as lists: drawn as any other; where it looks at a picture, the chosen row over that too. */
export function mapPart(facts) {
  const { found, force, state, before, after } = facts;
  const rows = found.map.length;
  const columns = found.map[0].length;
  const sheet = new Sheet({ rows, columns, exact: Float32Array.from(found.map.flat()) });
  const signedValues = facts.signedValues || hasSign(sheet.exact);
  const map = heatMap({ label: `${found.name}, ${rows} by ${columns}` });
  const { axes } = force.look.document;
  const site = siteCalled(force.look, found.site);
  const [rowNames, columnNames] = [namesFor(axes[site?.rows], rows), namesFor(axes[site?.columns], columns)];
  const chosen = { [force.site.columns]: force.key, [force.site.rows]: force.query }; // one axis: the query
  const place = Math.min(chosen[site?.rows] ?? 0, rows - 1);
  const scale = signedValues ? scales.difference(roundLimit(furthest(sheet.exact))) : scales[state.contrast];
  const cursor = { query: place, key: null };
  const show = () =>
    map.show({ sheet, rows: rowNames, columns: columnNames, scale, colours: state.colours, hover: null, cursor });
  const word = (axis, names, index) => (axis?.size === names.length ? wordsFor(axis, index) : names[index]);
  const row = sheet.row(place);
  const best = largest(row);
  const over = laidOver(facts, site, row, place, signedValues ? SIGNED : SHARES);
  return {
    finding: [
      ...before,
      role('query', word(axes[site?.rows], rowNames, place)),
      after,
      role('key', word(axes[site?.columns], columnNames, best)),
      `, ${(signedValues ? SIGNED : SHARES).write(row[best])}.`,
    ],
    plot: over ? element('div', { class: 'over-picture' }, over.root, map.root) : map.root,
    point: over?.point,
    shown: show,
    table: {
      caption: found.name,
      columns: ['', ...columnNames],
      rows: rowNames.map((name, index) => [name, ...Array.from(sheet.row(index), (value) => value.toFixed(3))]),
    },
  };
}

/** Occlusion over a sentence: bars. Over a picture: what each of its squares is worth, laid over it. */
export function occlusionPart(facts) {
  const { found, force, wide } = facts;
  const worth = found.worth.flat();
  const across = found.worth[0].length; // squares are no patches: there may be fewer of them
  const grid = across ? [found.worth.length, across] : null;
  const best = largest(worth);
  const axis = force.look.document.axes[found.axis];
  const word = (index) =>
    grid ? `square ${Math.floor(index / across)}, ${index % across}` : axis ? labelOf(axis, index) : String(index);
  const finding = [
    'What each part is worth to ',
    ...askedAbout(facts),
    ': how much less sure the model is without it. The most: ',
    role('key', word(best)),
    `, ${inNats(worth[best])}.`,
  ];
  const table = {
    caption: 'Occlusion',
    columns: ['without', 'worth in nats'],
    rows: worth.map((value, index) => [word(index), signed(value)]),
  };
  if (!grid)
    return {
      finding,
      table,
      plot: bars({
        wide,
        label: 'Worth of each token',
        values: worth,
        names: worth.map((_, index) => word(index)),
        yName: 'worth in nats',
        marked: best,
      }),
    };
  const label = `Worth of each of ${worth.length} squares of the picture`;
  const values = Float32Array.from(worth);
  return { finding, table, plot: stillPicture(facts.store, force.look, { values, grid, best, label, over: { ...SIGNED, write: inNats } }) };
}

/** That others are worth as much: by name where they are few. */
function tied(others) {
  if (!others.length) return '';
  return `, and just as much from ${others.length > 3 ? `each of ${others.length} others` : others.join(', ')}`;
}

/** What could have come to one position, had all passed that could: bars over a text, light over a picture. */
export function flowPart(facts) {
  const { found, force, wide } = facts;
  const site = siteCalled(force.look, found.site);
  const axis = force.look.document.axes[site.columns];
  const names = namesFor(axis, found.flow.length);
  const best = largest(found.flow);
  const same = found.flow.flatMap((share, index) =>
    index !== best && found.flow[best] - share < 1e-4 * found.flow[best] ? [wordsFor(axis, index)] : [],
  );
  const finding = [
    insteadOf(facts),
    'Through layers of pipes, each as wide as its weight: of all that could reach ',
    role('query', wordsFor(axis, found.row)),
    ', most could come from ',
    role('key', wordsFor(axis, best)),
    `, ${percent(found.flow[best])}${tied(same)}.`,
  ];
  const table = {
    caption: 'Flow',
    columns: ['from', 'share'],
    rows: found.flow.map((share, index) => [names[index], percent(share)]),
  };
  const over = laidOver(facts, site, Float32Array.from(found.flow), found.row, SHARES);
  if (over) return { finding, table, plot: over.root, point: over.point };
  return {
    finding,
    table,
    plot: bars({ wide, label: 'Flow from each token', values: found.flow, names, yName: 'share', marked: best }),
  };
}
