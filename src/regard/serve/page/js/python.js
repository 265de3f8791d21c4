// The view as Python: the same numbers, in the library's own words.

import { labelOf, moduleOf } from './axes.js';
import { apartWords } from './loader.js';
import { inForce } from './matrix.js';
import { mediumOf } from './media/index.js';

/** @param {unknown} value */
const text = (value) => JSON.stringify(value);

/** A run is loaded from its folder; random weights are made again, by the same seed. @param {Model} facts */
function modelCall({ name, source, title }) {
  if (!source) return 'regard.load("path/to/the/model")'; // a saved look does not know where it came from
  if (source === 'run') return `regard.load(${text(`runs/${title}`)})`;
  return source === 'zoo' ? `regard.serve.model_list.random(${text(name)})` : `regard.load(${text(name)})`;
}

/** One map of a trace. Calls of a module that ran several times, and windows (only they have axes that are named after
    their module), are not in trace.maps as they are shown here.
    @param {string} from @param {Site} given @param {Head} head */
function mapText(from, { name, rows }, head) {
  if (name !== moduleOf(name) || rows.includes('.'))
    return `map_weights(${from}, ${text(name)})${head === 'mean' ? '.mean(0)' : `[${head}]`}`;
  return `${from}.maps[${text(name)}].weights${head === 'mean' ? '[0].mean(0)' : `[0, ${head}]`}`;
}

const CHANGE_CLASSES = { token: 'Token', head: 'Head', temperature: 'Temperature' };

/** @param {Change} change */
const changeText = (change) => {
  if (change.kind === 'token') return `Token(${text(change.axis)}, ${change.position})`;
  if (change.kind === 'head') return `Head(${text(change.site)}, ${change.head}, ${change.factor})`;
  return `Temperature(${change.value}, ${text(change.site)})`;
};

/** The call that looks: a text as it was written, a picture by the name of a file that the reader has.
    @param {string} given @param {Change[]} changes */
function lookCall(given, changes) {
  const altered = changes.length ? `, changes=[${changes.map(changeText).join(', ')}]` : '';
  return `look(${given}${altered})`;
}

/** @param {Input} input */
const givenText = (input) => mediumOf(input).python(input);

/** The same for another model: it is given the words that the first wrote. @param {Input} input */
const withTarget = (input) => [givenText(input), input.target && text(input.target)].filter(Boolean).join(', ');

/** The model that a second map comes from, if it is another one. @param {ShownSheet} facts */
function otherOf({ other, look }) {
  if (!other) return null;
  return other.model ? modelCall(look.document.model) : `regard.swapped(model, ${text(other.attention)})`;
}

/** @param {State} state */
export function pythonFor(state) {
  const force = inForce(state);
  if (!force) return '';
  const { look, site, head, rowAxis, columnAxis, query, key } = force;
  const { document } = look;
  const lines = [
    `model = ${modelCall(document.model)}${document.model.source === 'run' ? '  # or the path of this run' : ''}`,
    `trace = model.${lookCall(givenText(document.input), document.changes)}`,
    `weights = ${mapText('trace', site, head)}  # ${site.rows} x ${site.columns}`,
  ];
  if (state.view === 'compare' && state.secondSheet) {
    const second = state.secondSheet;
    const other = otherOf(second);
    if (other) lines.push(`other = ${other}.${lookCall(withTarget(second.look.document.input), document.changes)}`);
    const shown = mapText(other ? 'other' : 'trace', second.look.at(second.site), second.head);
    lines.push(apartWords(state) ? `second = ${shown}` : `difference = weights - ${shown}`);
  }
  lines.push(`weights[${query}, ${key}]  # ${labelOf(rowAxis, query)} -> ${labelOf(columnAxis, key)}`);
  const imports = [lines.some((line) => line.includes('regard.serve')) ? 'import regard.serve.model_list' : 'import regard'];
  const used = [...new Set(document.changes.map((change) => CHANGE_CLASSES[change.kind]))].sort();
  if (used.length) imports.push(`from regard.look.changes import ${used.join(', ')}`);
  if (lines.some((line) => line.includes('map_weights('))) imports.push('from regard.look.document import map_weights');
  return `${[...imports, '', ...lines].join('\n')}\n`;
}
