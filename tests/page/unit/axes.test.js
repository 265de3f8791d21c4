import assert from 'node:assert/strict';
import { test } from 'node:test';

import {
  gapOf, gridName, groupsOf, headWord, isGrid, labelOf, labelsOf, moduleOf, patchOf, siteCalled, siteName, sizesOf, visible, wordsFor,
} from '../../../src/regard/serve/page/js/axes.js';
import { documentOf, lookAt, site } from './documents.js';

const { tokens, patches } = documentOf([]).axes;

test('a token that would not be seen gets a sign', () => {
  assert.equal(labelOf(tokens, 2), '␣');
  assert.equal(visible('\n'), '⏎');
  assert.equal(visible(' a'), ' a');
});

test('patches have rows and columns, and what stands before them a name', () => {
  assert.equal(labelOf(patches, 0), '[class]');
  assert.equal(labelOf({ ...patches, special: 2 }, 1), '[class 1]');
  assert.equal(labelOf(patches, 4), '1, 1');
  assert.deepEqual(patchOf(patches, 3), [1, 0]);
  assert.equal(wordsFor(patches, 4), 'patch 1, 1');
  assert.equal(wordsFor(patches, 0), '[class]');
  assert.equal(labelOf({ kind: 'queries', size: 3, labels: null, grid: null, special: 0 }, 2), '2');
  assert.equal(labelsOf(tokens), labelsOf(tokens), 'the same list every time');
});

test('how far positions are apart', () => {
  assert.ok(isGrid(patches) && !isGrid(tokens));
  assert.equal(gapOf(tokens)(0, 2), 2);
  assert.equal(gapOf(patches)(1, 4), Math.SQRT2);
});

test('sites in words', () => {
  assert.equal(siteName(site('decoder.1.cross', { part: 'decoder', layer: 1, role: 'cross' })), 'decoder 1, cross');
  assert.equal(siteName(site('blocks.0.mixer@3')), 'layer 0, call 3');
  assert.equal(siteName(site('stages.0.1', { part: 'stage 0', layer: 1 })), 'stage 0, layer 1');
  assert.equal(headWord(site('a', { heads: 1 }), 0), 'layer 0');
  assert.equal(headWord(site('a'), 'mean'), 'layer 0, mean of heads');
  assert.equal(moduleOf('blocks.0.mixer@3'), 'blocks.0.mixer');
  const calls = [site('a@0'), site('a@1')];
  assert.equal(gridName(calls[1], calls, 1), '1');
  assert.equal(gridName(calls[1], [...calls, site('b')], 1), '0.1');
  assert.equal(siteCalled(lookAt(documentOf(calls)), 'a').name, 'a@1');
  const row = site('row@2', { over: { kind: 'sequence', number: 2, label: 'yeast' }, time: 0 });
  assert.equal(siteName(row), 'layer 0, sequence yeast');
  assert.equal(gridName(row, [row, site('b')], 0), '0.yeast');
});

test('sites that belong together stand together, and axes are counted by their kind', () => {
  const groups = groupsOf([site('a', { part: 'encoder' }), site('b', { part: 'decoder' }), site('c', { part: 'encoder' })]);
  assert.deepEqual(groups.map((one) => [one.name, one.sites.length]), [['encoder self', 2], ['decoder self', 1]]);
  assert.equal(sizesOf({ tokens: { size: 3 }, 'stages.0': { size: 4 }, 'stages.1': { size: 2 } }), 'tokens 3 · patches 4, 2');
});
