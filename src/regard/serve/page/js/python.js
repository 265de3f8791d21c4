// The view as Python: the same numbers, in the library's own words.

import { writtenOf } from './axes.js';
import { inForce } from './matrix.js';

const text = (value) => JSON.stringify(value);
const headIndex = (head) => (head === 'mean' ? '[0].mean(0)' : `[0, ${head}]`);

const changeText = (change) => {
  if (change.kind === 'token') return `{"kind": "token", "axis": ${text(change.axis)}, "position": ${change.position}}`;
  if (change.kind === 'head')
    return `{"kind": "head", "site": ${text(change.site)}, "head": ${change.head}, "factor": ${change.factor}}`;
  return `{"kind": "temperature", "site": ${text(change.site)}, "value": ${change.value}}`;
};

/** The call that looks: a text as it was written, a picture by the name of a file that the reader has. */
function lookCall(input, changes) {
  const given = input.kind === 'image' || input.kind === 'caption' ? '"picture.png"' : text(writtenOf(input));
  const altered = changes.length ? `, changes=[${changes.map(changeText).join(', ')}]` : '';
  return `model.look(${given}${altered})`;
}

export function pythonFor(state) {
  const { look, site, head, rowAxis, columnAxis, query, key } = inForce(state);
  const { document } = look;
  const lines = [
    'import regard',
    '',
    `model = regard.load(${text(document.model.name)})`,
    `trace = ${lookCall(document.input, document.changes)}`,
    `weights = trace.maps[${text(site.name)}].weights${headIndex(head)}  # ${site.rows} x ${site.columns}`,
  ];
  if (state.view === 'compare' && state.secondSheet) {
    const second = state.secondSheet;
    if (state.other?.model) {
      lines.push(
        `other = regard.load(${text(state.other.model)}).${lookCall(document.input, document.changes).slice(6)}`,
      );
      lines.push(`difference = weights - other.maps[${text(second.site)}].weights${headIndex(second.head)}`);
    } else if (!state.other)
      lines.push(`difference = weights - trace.maps[${text(second.site)}].weights${headIndex(second.head)}`);
  }
  const label = (axis, index) => (axis.labels ? axis.labels[index] : String(index));
  lines.push(`weights[${query}, ${key}]  # ${label(rowAxis, query)} -> ${label(columnAxis, key)}`);
  return `${lines.join('\n')}\n`;
}
