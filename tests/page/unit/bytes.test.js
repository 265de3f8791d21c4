import assert from 'node:assert/strict';
import { test } from 'node:test';

import { fromRoots, halve, halves, halvings, sides, singles } from '../../../src/regard/serve/page/js/bytes.js';

const base64 = (array) => Buffer.from(array.buffer).toString('base64');

test('single precision travels unchanged', () => {
  const values = Float32Array.from([0, 1.5, -2.25, 1e-20]);
  assert.deepEqual(singles(base64(values)), values);
});

test('half precision: ends, signs, what is below the smallest normal number', () => {
  const words = Uint16Array.from([0x0000, 0x3c00, 0xc000, 0x7bff, 0x0001, 0x0400, 0x7c00, 0xfc00, 0x7e00]);
  const found = Array.from(halves(base64(words)));
  assert.deepEqual(found.slice(0, 8), [0, 1, -2, 65504, 2 ** -24, 2 ** -14, Infinity, -Infinity]);
  assert.ok(Number.isNaN(found[8]));
});

test('weights come back from their roots', () => {
  const found = fromRoots(Uint8Array.from([0, 51, 255]));
  assert.ok(Math.abs(found[1] - 0.04) < 1e-6);
  assert.deepEqual([found[0], found[2]], [0, 1]);
});

test('a lone strong weight never fades, of either sign', () => {
  const values = Float32Array.from([0, 0, 0.1, 0, -0.9, 0.2, 0, 0, 0.3]);
  const { values: small, rows, columns } = halve({ values, rows: 3, columns: 3 });
  assert.deepEqual([rows, columns], [2, 2]);
  assert.deepEqual(Array.from(small, (one) => Number(one.toFixed(2))), [-0.9, 0.2, 0, 0.3]);
});

test('halvings go on until both sides fit', () => {
  assert.deepEqual(sides(5, 130, 1), [3, 65]);
  assert.equal(halvings(64, 64), 0);
  assert.equal(halvings(5, 65), 1);
  assert.equal(halvings(2048, 3), 5);
});
