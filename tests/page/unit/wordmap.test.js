import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Sheet } from '../../../src/regard/serve/page/js/sheet.js';
import { meanOfWord, resized } from '../../../src/regard/serve/page/js/wordmap.js';
import { documentOf, lookAt, site } from './documents.js';

test('a grid is resized linearly between the middles of its cells', () => {
  assert.deepEqual([...resized([0, 4], [1, 2], [1, 4])], [0, 1, 3, 4]);
  assert.deepEqual([...resized([1, 2, 3, 4], [2, 2], [2, 2])], [1, 2, 3, 4]);
  assert.deepEqual([...resized([7], [1, 1], [2, 2])], [7, 7, 7, 7]);
});

const crossed = (name, rows, time) => site(name, { role: 'cross', rows, columns: 'text', time });
const grid = (side) => ({ kind: 'image', size: side * side, labels: null, grid: [side, side], special: 0 });

function drawn(maps) {
  const look = lookAt(
    documentOf([crossed('a@0', 'fine', 0), crossed('a@1', 'fine', 1), crossed('b@1', 'coarse', 1), site('c')], {
      answer: { kind: 'drawing', png: 'data:image/png;base64,' },
      time: { unit: 'step', count: 2 },
      axes: {
        fine: grid(2), coarse: grid(1), tokens: grid(1),
        text: { kind: 'text', size: 2, labels: ['a', 'b'], grid: null, special: 0 },
      },
    }),
  );
  look.makeSheet = async (name, head) => {
    assert.equal(head, 'mean');
    return new Sheet({ rows: 1, columns: 2, exact: maps[name] });
  };
  return look;
}

test('the mean of a word is that of the layers of this moment, and of its own column', async () => {
  const maps = {
    'a@0': new Float32Array(8).fill(9),
    'a@1': Float32Array.from([0, 1, 0, 2, 0, 3, 0, 4]),
    'b@1': Float32Array.from([0, 10]),
  };
  const look = drawn(maps);
  const found = await meanOfWord(look, look.at('b@1'), { unit: 'step', count: 2, index: 1 }, 1);
  assert.deepEqual([...found.values], [5.5, 6, 6.5, 7]);
  assert.deepEqual([found.grid, found.layers, found.left], [[2, 2], 2, 0]);
});

test('maps that do not come whole are left out, and counted', async () => {
  const look = drawn({ 'a@1': null, 'b@1': Float32Array.from([0, 10]) });
  const found = await meanOfWord(look, look.at('b@1'), { unit: 'step', count: 2, index: 1 }, 1);
  assert.deepEqual([[...found.values], found.layers, found.left], [[10], 1, 1]);
});
