// Analyses whose finding is a map, or what each position is worth: drawn as any other map, or as bars.

import { labelOf, labelsOf, sentenceCase, siteCalled, siteName, wordsFor } from './axes.js';
import { roundLimit, scales } from './colour.js';
import { element, furthest, hasSign, largest, percent, role, signed } from './dom.js';
import { heatMap } from './heatmap.js';
import { SHARES, SIGNED } from './light.js';
import { placesOf } from './media/index.js';
import { bars } from './plots.js';
import { Sheet } from './sheet.js';
import { Trouble } from './source.js';

/** Why another stack is shown than that of the chosen site; nothing where it is the same. @param {PartFacts} facts */
export function insteadOf({ found, force }) {
  if (force.site.role === 'self') return '';
  const rows = siteCalled(force.look, found.site)?.rows;
  const which = rows === force.site.columns ? 'the stack that it attends to' : 'the last self-attention stack';
  return `${sentenceCase(siteName(force.site))} is not self-attention; this is ${which}. `;
}

/** What the answer is that was asked about; of a detector, whose. @param {PartFacts} facts */
export const askedAbout = ({ found, asked }) => [
  element('b', {}, `“${found.what}”`),
  asked.output === undefined ? '' : `, the most likely class of query ${asked.output},`,
];

/** Differences of log-probabilities. @param {number} value */
export const inNats = (value) => `${signed(value)} nats`;

/** @param {number} count */
export const numbered = (count) => Array.from({ length: count }, (_, index) => String(index));
/** @param {Axis | undefined} axis @param {number} count @returns {string[]} */
const namesFor = (axis, count) => (axis && axis.size === count ? labelsOf(axis) : numbered(count));

/** One row of what was found, laid over the input that its columns are parts of; null where it cannot be. What is chosen
    in it is chosen everywhere.
    @param {PartFacts} facts @param {Site | undefined} site @param {Float32Array} row @param {number} query
    @param {Over} over */
function laidOver({ force, store }, site, row, query, over) {
  const { look, key } = force;
  if (!site) return null;
  const axis = look.document.axes[site.columns];
  const places = placesOf(axis);
  if (!places?.lays(look, axis) || axis.size !== row.length) return null;
  const chooses = site.rows === site.columns && site.rows === force.site.rows;
  const view = places.strip(store, site.columns, axis, { chooses, bars: true, look, over });
  view.update(row, query, site.columns === force.site.columns ? key : null);
  /** @param {Hover | null} hover */
  const point = (hover) => 
    view.point([hover?.query, hover?.key].flatMap((spot) => (spot?.axis === site.columns ? [spot.position] : [])));
  return { root: view.root, point };
}

/** A map that the API sent as lists: drawn as any other; where it looks at a picture, the chosen row over that too.
    @param {PartFacts & { before: (Node | string)[]; after: string; signedValues?: boolean }} facts */
export function mapPart(facts) {
  const { found, force, state, before, after } = facts;
  const rows = found.map.length;
  const columns = found.map[0].length;
  const exact = Float32Array.from(found.map.flat());
  const sheet = new Sheet({ rows, columns, exact });
  const signedValues = facts.signedValues || hasSign(exact);
  const map = heatMap({ label: `${found.name}, ${rows} by ${columns}` });
  const { axes } = force.look.document;
  const site = siteCalled(force.look, found.site);
  const [rowAxis, columnAxis] = site ? [axes[site.rows], axes[site.columns]] : [];
  const [rowNames, columnNames] = [namesFor(rowAxis, rows), namesFor(columnAxis, columns)];
  const chosen = { [force.site.columns]: force.key, [force.site.rows]: force.query }; // one axis: the query
  const place = Math.min((site && chosen[site.rows]) ?? 0, rows - 1);
  const scale = signedValues ? scales.difference(roundLimit(furthest(exact))) : scales[state.contrast];
  const cursor = { query: place, key: null };
  const show = () =>
    map.show({ sheet, rows: rowNames, columns: columnNames, scale, colours: state.colours, hover: null, cursor });
  /** @param {Axis | undefined} axis @param {string[]} names @param {number} index */
  const word = (axis, names, index) => (axis?.size === names.length ? wordsFor(axis, index) : names[index]);
  const row = exact.subarray(place * columns, (place + 1) * columns);
  const best = largest(row);
  const over = laidOver(facts, site, row, place, signedValues ? SIGNED : SHARES);
  return {
    finding: [
      ...before,
      role('query', word(rowAxis, rowNames, place)),
      after,
      role('key', word(columnAxis, columnNames, best)),
      `, ${(signedValues ? SIGNED : SHARES).write(row[best])}.`,
    ],
    plot: over ? element('div', { class: 'over-picture' }, over.root, map.root) : map.root,
    point: over?.point,
    shown: show,
    table: {
      caption: found.name,
      columns: ['', ...columnNames],
      rows: rowNames.map((name, index) => [name, ...found.map[index].map((value) => value.toFixed(3))]),
    },
  };
}

/** Occlusion over a sentence: bars. Over a picture: what each of its squares is worth, laid over it.
    @param {PartFacts} facts */
export function occlusionPart(facts) {
  const { found, force, wide } = facts;
  const worth = found.worth.flat();
  const across = Array.isArray(found.worth[0]) ? found.worth[0].length : 0; // squares are no patches: there may be fewer of them
  const grid = across ? [found.worth.length, across] : null;
  const best = largest(worth);
  const axis = force.look.document.axes[found.axis];
  /** @param {number} index */
  const word = (index) =>
    grid ? `square ${Math.floor(index / across)}, ${index % across}` : axis ? labelOf(axis, index) : String(index);
  const finding = [
    'Decrease in the log-probability of ',
    ...askedAbout(facts),
    ' without each part. Largest: ',
    role('key', word(best)),
    `, ${inNats(worth[best])}.`,
  ];
  const table = {
    caption: 'Occlusion',
    columns: ['without', 'decrease in nats'],
    rows: worth.map((value, index) => [word(index), signed(value)]),
  };
  if (!grid)
    return {
      finding,
      table,
      plot: bars({
        wide,
        label: 'Importance of each token',
        values: worth,
        names: worth.map((_, index) => word(index)),
        yName: 'decrease in nats',
        marked: best,
      }),
    };
  const label = `Importance of each of ${worth.length} squares`;
  const shown = { values: Float32Array.from(worth), grid, best, label, over: { ...SIGNED, write: inNats } };
  const still = Object.values(force.look.document.axes).flatMap((one) => placesOf(one)?.still ?? [])[0];
  return { finding, table, plot: still ? still(facts.store, force.look, shown) : '' };
}

/** That others are worth as much: by name where they are few. @param {string[]} others */
function tied(others) {
  if (!others.length) return '';
  return `, tied with ${others.length > 3 ? `${others.length} others` : others.join(', ')}`;
}

/** What could have come to one position, had all passed that could: bars over a text, light over a picture.
    @param {PartFacts} facts */
export function flowPart(facts) {
  const { found, force, wide } = facts;
  const site = siteCalled(force.look, found.site);
  if (!site) throw new Trouble({ what: 'Unknown layer' });
  const axis = force.look.document.axes[site.columns];
  const names = namesFor(axis, found.flow.length);
  const best = largest(found.flow);
  const same = found.flow.flatMap((share, index) =>
    index !== best && found.flow[best] - share < 1e-4 * found.flow[best] ? [wordsFor(axis, index)] : [],
  );
  const finding = [
    insteadOf(facts),
    'Maximum flow with the attention weights as capacities: of all that can reach ',
    role('query', wordsFor(axis, found.row)),
    ', most can come from ',
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
