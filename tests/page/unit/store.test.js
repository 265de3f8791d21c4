import assert from 'node:assert/strict';
import { test } from 'node:test';

import { createStore, hoverCell, hoverToken, INITIAL, pointed, siteOf, turn } from '../../../src/regard/serve/page/js/store.js';
import { documentOf, lookAt, settled, site, timed } from './documents.js';

test('who watches a part hears of it once a turn, and not of others', async () => {
  const store = createStore();
  const heard = [];
  store.watch(['head', 'query'], ({ head, query }) => heard.push([head, query]), { now: false });
  store.set({ head: 1 });
  store.set({ query: 2, key: 5 });
  await settled();
  assert.deepEqual(heard, [[1, 2]]);
  store.set({ key: 6 });
  await settled();
  assert.equal(heard.length, 1);
});

test('what stays the same is no change, and who left hears nothing', async () => {
  const store = createStore({ head: 3 });
  let count = 0;
  const stop = store.watch(['head', 'hover'], () => (count += 1));
  assert.equal(count, 1, 'at once, with what is there');
  store.set({ head: 3 });
  await settled();
  assert.equal(count, 1);
  store.set({ hover: hoverToken('tokens', 1) });
  await settled();
  store.set({ hover: hoverToken('tokens', 1) }); // another object, the same place
  await settled();
  assert.equal(count, 2);
  stop();
  store.set({ head: 4 });
  await settled();
  assert.equal(count, 2);
});

test('one store does not change another', () => {
  createStore().set({ head: 7 });
  assert.equal(createStore().state.head, INITIAL.head);
});

test('a place is pointed at where its axis is', () => {
  const cross = site('cross', { rows: 'target', columns: 'source' });
  assert.deepEqual(pointed(hoverToken('source', 2), cross), { query: null, key: 2 });
  assert.equal(pointed(hoverToken('other', 2), cross), null);
  assert.equal(pointed(null, cross), null);
  assert.deepEqual(hoverCell(cross, { query: 1, key: null }), { query: { axis: 'target', position: 1 }, key: null });
});

test('steps go around the end, and from the mean to the first or the last', () => {
  const look = lookAt(documentOf([site('one'), site('two')]));
  const store = createStore({ look, site: 'two', head: 1 });
  turn(store, 'site', 1);
  assert.equal(store.state.site, 'one');
  turn(store, 'head', 1);
  assert.equal(store.state.head, 0);
  store.set({ head: 'mean' });
  turn(store, 'head', -1);
  assert.equal(store.state.head, 1);
  turn(store, 'query', -1);
  assert.equal(store.state.query, 2);
  assert.equal(siteOf(store.state).rowAxis.size, 3);
});

test('steps from site to site stay in one moment', () => {
  const look = lookAt(timed());
  const store = createStore({ look, site: 'blocks.0.mixer@1', time: { unit: 'recycling', count: 3, index: 1 } });
  turn(store, 'site', 1);
  assert.equal(store.state.site, 'head');
  turn(store, 'site', 1);
  assert.equal(store.state.site, 'blocks.0.mixer@1');
});
