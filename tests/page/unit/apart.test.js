import assert from 'node:assert/strict';
import { test } from 'node:test';

import { whyApart } from '../../../src/regard/serve/page/js/axes.js';
import { documentOf, lookAt, site } from './documents.js';

const words = (labels, more = {}) => ({ kind: 'text', size: labels.length, labels, grid: null, special: 0, ...more });
const grid = (...sides) => ({ kind: 'image', size: sides[0] * sides[1], labels: null, grid: sides, special: 0 });
const axes = {
  source: words(['I', 'like', 'tea']),
  written: words(['Ich', 'mag', 'Tee']),
  'stages.0': grid(4, 4),
  'stages.1': grid(4, 4),
  'stages.2': grid(2, 8),
};
const placed = (rows, columns, more = {}) => ({ look: lookAt(documentOf([], { axes: { ...axes, ...more } })), site: site('a', { rows, columns }) });

test('maps of one shape over other things have no difference, and it is told what they are over', () => {
  const encoder = placed('source', 'source');
  assert.match(whyApart(encoder, placed('written', 'source')), /rows are source in the first and written in the second/);
  assert.match(whyApart(placed('written', 'source'), placed('written', 'written')), /columns are source/);
  assert.equal(whyApart(encoder, placed('source', 'source')), '');
});

test('other words under one name have no difference', () => {
  const other = placed('source', 'source', { source: words(['I', 'like', 'coffee']) });
  assert.equal(whyApart(placed('source', 'source'), other), 'row 2 is “tea” in the first and “coffee” in the second');
  const longer = placed('source', 'source', { source: words(['I', 'like', 'hot', 'tea']) });
  assert.match(whyApart(placed('source', 'source'), longer), /the first has 3 rows and the second 4/);
});

test('patches are where they are, in whichever layer', () => {
  assert.equal(whyApart(placed('stages.0', 'stages.0'), placed('stages.1', 'stages.1')), '');
  assert.notEqual(whyApart(placed('stages.0', 'stages.0'), placed('stages.2', 'stages.2')), '');
});
