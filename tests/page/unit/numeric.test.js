import assert from 'node:assert/strict';
import { test } from 'node:test';

import {
  distance, effectiveRank, entropy, mean, rollout, scoresOf, singularValues, softmax, temperatureOf, warmed, weightedSum,
} from '../../../src/regard/serve/page/js/numeric.js';

const near = (found, wanted, text) =>
  Array.from(found).forEach((value, index) => assert.ok(Math.abs(value - wanted[index]) < 1e-5, `${text ?? ''} ${value}, ${wanted[index]}`));

test('softmax sums to one, and what is masked gets nothing', () => {
  const { weights, total, top } = softmax([1, null, 3]);
  near(weights, [0.11920292, 0, 0.88079708]);
  assert.equal(top, 3);
  assert.ok(Math.abs(total - (1 + Math.exp(-2))) < 1e-12);
  near(softmax([null, null]).weights, [0, 0], 'nothing to look at');
  near(softmax([1e4, 0]).weights, [1, 0], 'large scores do not overflow');
});

test('a temperature is warmed into a map row by row', () => {
  const row = Float32Array.from(softmax([1, 2, 3]).weights);
  near(warmed(row, 3, 2), softmax([0.5, 1, 1.5]).weights);
  near(warmed(Float32Array.from([0, 1, 0.5, 0.5]), 2, 4), [0, 1, 0.5, 0.5]);
});

test('temperatures go in quarter octaves', () => {
  assert.equal(temperatureOf(0), 1);
  assert.equal(temperatureOf(1), 2);
  assert.equal(temperatureOf(9), 4);
  assert.equal(temperatureOf(0.3), 1.19);
});

test('scores and sums are those of matrices', () => {
  near(scoresOf([1, 2], [3, 4, 5, 6], 0.5), [5.5, 8.5]);
  near(weightedSum([0.25, 0.75], [1, 2, 3, 4], 2), [2.5, 3.5]);
  near(mean([Float32Array.from([1, 2]), Float32Array.from([3, 4])]), [2, 3]);
});

test('rollout of one layer is half of it and half of itself; of two, their product', () => {
  const map = Float32Array.from([0.2, 0.8, 0.6, 0.4]);
  near(rollout([map], 2), [0.6, 0.4, 0.3, 0.7]);
  near(rollout([map, map], 2), [0.48, 0.52, 0.39, 0.61]);
});

test('distance leaves out what has no place', () => {
  const map = Float32Array.from([1, 0, 0, 0.5, 0.5, 0, 0.2, 0.4, 0.4]);
  assert.ok(Math.abs(distance(map, 3, 1, (row, column) => Math.abs(row - column)) - 0.25) < 1e-6);
});

test('entropy is 0 of one position, and log2 n of all alike', () => {
  assert.ok(Math.abs(entropy([1, 0, 0, 0], 1)) < 1e-12);
  assert.ok(Math.abs(entropy([0.25, 0.25, 0.25, 0.25], 1) - 2) < 1e-12);
});

test('singular values of a rotation and of a projection', () => {
  near(singularValues([0, 1, -1, 0], 2, 2), [1, 1]);
  near(singularValues([1, 1, 1, 1], 2, 2), [2, 0]);
  near(singularValues([3, 0, 0, 0, 2, 0], 2, 3), [3, 2]);
  assert.ok(Math.abs(effectiveRank([1, 1, 1]) - 3) < 1e-9);
  assert.ok(Math.abs(effectiveRank([1, 0, 0]) - 1) < 1e-9);
});
