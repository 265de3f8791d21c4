// Analyses whose finding is a map, or what each position is worth: drawn as any other map, or as bars.

import { isPicture, labelOf, labelsOf, siteCalled, wordsFor } from './axes.js';
import { roundLimit, scales } from './colour.js';
import { element, furthest, largest, percent, role, signed } from './dom.js';
import { heatMap } from './heatmap.js';
import { bars } from './plots.js';
import { Sheet } from './sheet.js';

export const numbered = (count) => Array.from({ length: count }, (_, index) => String(index));
const namesFor = (axis, count) => (axis && axis.size === count ? labelsOf(axis) : numbered(count));

/** A map that the API sent as lists: drawn as any other. */
export function mapPart({ found, force, state, signedValues, picture, before, after }) {
  const rows = found.map.length;
  const columns = found.map[0].length;
  const sheet = new Sheet({ rows, columns, exact: Float32Array.from(found.map.flat()) });
  const limit = roundLimit(furthest(sheet.exact));
  const map = heatMap({ label: `${found.name}, ${rows} by ${columns}` });
  const { axes } = force.look.document;
  const site = siteCalled(force.look, found.site);
  const [rowNames, columnNames] = [namesFor(axes[site?.rows], rows), namesFor(axes[site?.columns], columns)];
  const place = site?.rows === force.site.rows ? Math.min(force.query, rows - 1) : 0;
  const plain = picture ? scales.influence(limit, state.contrast) : scales[state.contrast];
  const scale = signedValues ? scales.difference(limit) : plain;
  const show = () =>
    map.show({
      sheet,
      rows: rowNames,
      columns: columnNames,
      scale,
      colours: state.colours,
      hover: null,
      cursor: picture ? null : { query: place, key: null },
      roles: !picture,
    });
  const row = sheet.row(place);
  const best = largest(row);
  return {
    finding: [
      before,
      role('query', rowNames[place]),
      after,
      role('key', columnNames[best]),
      `, ${signedValues ? signed(row[best]) : percent(row[best])}.`,
    ],
    plot: map.root,
    shown: show,
    table: {
      caption: found.name,
      columns: ['', ...columnNames],
      rows: rowNames.map((name, index) => [name, ...Array.from(sheet.row(index), (value) => value.toFixed(3))]),
    },
  };
}

/** Occlusion over a sentence: bars. Over a picture: a map of the patches. */
export function occlusionPart(facts) {
  const { found, force, wide } = facts;
  const worth = found.worth.flat();
  const axes = Object.values(force.look.document.axes);
  const grid = Array.isArray(found.worth[0]) && axes.find((axis) => isPicture(axis));
  const best = largest(worth);
  const axis = grid || force.look.document.axes[found.axis];
  const word = (index) => (grid ? wordsFor(grid, index + grid.special) : axis ? labelOf(axis, index) : String(index));
  const finding = [
    'What each part is worth to ',
    element('b', {}, `“${found.what}”`),
    ': how much less sure the model is without it. The most: ',
    role('key', word(best)),
    `, ${signed(worth[best])}.`,
  ];
  const table = {
    caption: 'Occlusion',
    columns: ['without', 'worth'],
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
        yName: 'worth',
        marked: best,
      }),
    };
  const map = mapPart({
    ...facts,
    found: { ...found, map: found.worth },
    signedValues: true,
    picture: true,
    before: '',
    after: '',
  });
  return { ...map, finding, table };
}

/** What could have come to one position, had all passed that could: bars over a text, a map over a picture. */
export function flowPart(facts) {
  const { found, force, wide } = facts;
  const site = siteCalled(force.look, found.site);
  const axis = force.look.document.axes[site.columns];
  const names = namesFor(axis, found.flow.length);
  const best = largest(found.flow);
  const finding = [
    'Through layers of pipes, each as wide as its weight: of all that could reach ',
    role('query', wordsFor(axis, found.row)),
    ', most could come from ',
    role('key', wordsFor(axis, best)),
    `, ${percent(found.flow[best])}.`,
  ];
  const table = {
    caption: 'Flow',
    columns: ['from', 'share'],
    rows: found.flow.map((share, index) => [names[index], percent(share)]),
  };
  if (!isPicture(axis))
    return {
      finding,
      table,
      plot: bars({ wide, label: 'Flow from each token', values: found.flow, names, yName: 'share', marked: best }),
    };
  const across = axis.grid[1];
  const patches = found.flow.slice(axis.special);
  const map = Array.from({ length: axis.grid[0] }, (_, row) => patches.slice(row * across, (row + 1) * across));
  return { ...mapPart({ ...facts, found: { name: 'flow', map }, picture: true, before: '', after: '' }), finding, table };
}
