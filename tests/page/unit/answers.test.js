import assert from 'node:assert/strict';
import { test } from 'node:test';

import { commonWords } from '../../../src/regard/serve/page/js/beside.js';
import { changedName, changedWords, crossedOut, fitsLook } from '../../../src/regard/serve/page/js/changed.js';
import { movers } from '../../../src/regard/serve/page/js/chances.js';
import { heated, toggled } from '../../../src/regard/serve/page/js/intervene.js';
import { pythonFor } from '../../../src/regard/serve/page/js/python.js';
import { Sheet } from '../../../src/regard/serve/page/js/sheet.js';
import { INITIAL } from '../../../src/regard/serve/page/js/store.js';
import { heatOf } from '../../../src/regard/serve/page/js/working.js';
import { documentOf, lookAt, site } from './documents.js';

const token = { kind: 'token', axis: 'tokens', position: 1 };
const head = { kind: 'head', site: 'blocks.0.mixer', head: 1, factor: 0 };

test('the words of two sentences that stayed', () => {
  const [old, now] = commonWords(['der', 'große', 'Hund'], ['der', 'Hund', 'bellt']);
  assert.deepEqual([...old], [0, 2]);
  assert.deepEqual([...now], [0, 1]);
});

test('what rose and what fell most', () => {
  assert.equal(movers([['a', 0.9], ['b', 0.1]], [['b', 0.8], ['a', 0.2]]), 'a rose most, +70.0 points; b fell most, −70.0 points');
  assert.equal(movers([['a', 1]], [['a', 1]]), '');
});

test('a change that is there goes, another comes, and one temperature replaces all', () => {
  assert.deepEqual(toggled([token], { ...token }), []);
  assert.deepEqual(toggled([token], head), [token, head]);
  assert.deepEqual(heated([token, { kind: 'temperature', site: 'a', value: 3 }], 2), [token, { kind: 'temperature', site: '*', value: 2 }]);
  assert.deepEqual(heated([token], 1), [token]);
  assert.equal(heatOf(heated([], 2), 'blocks.0.mixer@1'), 2);
  assert.equal(heatOf([], 'blocks.0.mixer'), 1);
});

test('changes in words, in the name of a file, and whether a look can have them', () => {
  const look = lookAt(documentOf([site('blocks.0.mixer')], { changes: [token, head] }));
  assert.equal(changedWords(look), 'Changed: masked red (tokens 1); head 1 of layer 0 off');
  assert.match(changedName(look), /^changed-masked-red-tokens-1/);
  assert.deepEqual([...crossedOut(look, 'tokens')], [1]);
  assert.ok(fitsLook(look, token) && fitsLook(look, head));
  assert.ok(!fitsLook(look, { ...token, position: 3 }) && !fitsLook(look, { ...head, head: 2 }));
});

test('the view as Python', () => {
  const look = lookAt(documentOf([site('blocks.0.mixer')], { changes: [token] }));
  const sheet = new Sheet({ rows: 3, columns: 3, exact: new Float32Array(9) });
  const code = pythonFor({ ...INITIAL, look, site: 'blocks.0.mixer', sheet: { look, site: 'blocks.0.mixer', head: 1, sheet } });
  assert.match(code, /model\.look\("a red", changes=\[Token\("tokens", 1\)\]\)/);
  assert.match(code, /trace\.maps\["blocks\.0\.mixer"\]\.weights\[0, 1\]/);
  assert.match(code, /from regard\.look\.changes import Token/);
});
