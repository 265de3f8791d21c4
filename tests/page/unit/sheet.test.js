import assert from 'node:assert/strict';
import { test } from 'node:test';

import { differenceSheet, Sheet } from '../../../src/regard/serve/page/js/sheet.js';
import { settled } from './documents.js';

const exact = () => new Sheet({ rows: 2, columns: 2, exact: Float32Array.from([1, 2, 3, 4]) });

test('all numbers are there, and halved copies are made of them', () => {
  assert.deepEqual(Array.from(exact().row(1)), [3, 4]);
  assert.equal(exact().value(0, 1), 2);
  assert.deepEqual(Array.from(exact().level(1).found.values), [4]);
});

test('what is not there is asked for once, and told when it comes', async () => {
  const asked = [];
  let told = 0;
  const sheet = new Sheet({
    rows: 4,
    columns: 4,
    coarse: { values: new Float32Array(1), rows: 1, columns: 1, level: 2 },
    fetchLevel: async (index) => asked.push(`level ${index}`) && new Float32Array(4),
    fetchRow: async (row) => asked.push(`row ${row}`) && Float32Array.from([0, 1, 2, 3]),
  });
  sheet.onArrival = () => (told += 1);
  assert.equal(sheet.level(1).index, 2, 'meanwhile the coarser one');
  assert.equal(sheet.row(3), null);
  sheet.row(3);
  await settled();
  assert.deepEqual(asked, ['level 1', 'row 3']);
  assert.equal(told, 2);
  assert.equal(sheet.level(1).index, 1);
  assert.equal(sheet.value(3, 2), 2);
});

test('a difference is taken cell by cell', () => {
  assert.deepEqual(Array.from(differenceSheet(exact(), exact()).exact), [0, 0, 0, 0]);
});
