import assert from 'node:assert/strict';
import { test } from 'node:test';

import { fitsAddress, readChanges, readHash, savedView, writeChanges, writeHash } from '../../../src/regard/serve/page/js/permalink.js';
import { INITIAL } from '../../../src/regard/serve/page/js/store.js';

const CHANGES = [
  { kind: 'token', axis: 'source', position: 3 },
  { kind: 'head', site: 'blocks.1.mixer', head: 2, factor: 0 },
  { kind: 'temperature', site: '*', value: 0.5 },
];

test('changes are read as they were written', () => {
  assert.equal(writeChanges(CHANGES), 't.source.3~h.blocks.1.mixer.2~T.*.0.50');
  assert.deepEqual(readChanges(writeChanges(CHANGES)), CHANGES);
  assert.deepEqual(readChanges('junk~t.x~~h.y'), []);
  assert.deepEqual(readChanges('h.blocks.1.mixer@2.0')[0].site, 'blocks.1.mixer', 'of the module, in all its calls');
  assert.equal(readChanges('T.*.9999.0')[0].value, 20);
});

test('a view is read as it was written', () => {
  const state = {
    ...INITIAL, model: 'recall', input: { kind: 'text', text: 'Anna & Boris = ?' }, site: 'blocks.1.mixer', head: 'mean', view: 'compare',
    query: 3, key: 4, withSite: 'blocks.0.mixer', withHead: 1, other: { attention: 'performer' }, changes: CHANGES, contrast: 'linear', tab: 'flow',
  };
  const { patch, given } = readHash(writeHash(state));
  assert.deepEqual(given, { text: 'Anna & Boris = ?' });
  for (const name of Object.keys(patch)) assert.deepEqual(patch[name], state[name], name);
  assert.equal(Object.keys(patch).length, 12);
});

test('what is malformed is left out', () => {
  const { patch } = readHash('#model=a&head=-1&view=nowhere&row=x&scale=log&tab=toString&with=a&other=b');
  assert.deepEqual(patch, { model: 'a' });
});

test('the words of a medium that nobody knows yet stay what was given', () => {
  assert.deepEqual(readHash('#model=a&series=1,2,3&site=b').given, { series: '1,2,3' });
});

test('a large picture does not go into an address', () => {
  const small = { kind: 'image', png: 'data:image/png;base64,AAAA' };
  assert.ok(fitsAddress(small));
  assert.ok(writeHash({ ...INITIAL, input: small }).includes('png='));
  const large = { kind: 'caption', image: { kind: 'image', png: `data:image/png;base64,${'A'.repeat(7000)}` } };
  assert.ok(!fitsAddress(large));
  assert.ok(!writeHash({ ...INITIAL, input: large }).includes('png='));
  assert.ok(!fitsAddress({ kind: 'image', upload: '0'.repeat(32) }));
});

test('a saved page does not open on another model', () => {
  const view = savedView({ view: '#model=a&site=b&view=compare&other=model:c' });
  assert.deepEqual(view, { site: 'b', view: 'map' });
});
