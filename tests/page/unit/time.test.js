import assert from 'node:assert/strict';
import { test } from 'node:test';

import { firstSite } from '../../../src/regard/serve/page/js/loader.js';
import { readHash, writeHash } from '../../../src/regard/serve/page/js/permalink.js';
import { INITIAL } from '../../../src/regard/serve/page/js/store.js';
import { momentWords, moved, siteAt, sitesAt, timeOf } from '../../../src/regard/serve/page/js/time.js';
import { documentOf, lookAt, site, timed } from './documents.js';

test('a look without time has none, and one moment is none', () => {
  assert.equal(timeOf(documentOf([site('one')])), null);
  assert.equal(timeOf(documentOf([site('one')], { time: { unit: 'step', count: 1 } })), null);
});

test('the last moment is shown unless another is wanted, and none beyond', () => {
  assert.deepEqual(timeOf(timed()), { unit: 'recycling', count: 3, index: 2 });
  assert.equal(timeOf(timed(), 0).index, 0);
  assert.equal(timeOf(timed(), 99).index, 2);
  assert.equal(timeOf(timed(), -1).index, 0);
});

test('a moment has its own sites and those that belong to none', () => {
  const { sites } = timed();
  const names = (index) => sitesAt(sites, timeOf(timed(), index)).map((one) => one.name);
  assert.deepEqual(names(0), ['blocks.0.mixer@0', 'head']);
  assert.deepEqual(names(2), ['blocks.0.mixer@2', 'head']);
  assert.equal(sitesAt(sites, null), sites);
  assert.equal(firstSite(lookAt(timed()), timeOf(timed(), 1)), 'head');
});

test('the same module follows through time; what belongs to none stays', () => {
  const { sites } = timed();
  assert.equal(siteAt(sites, 'blocks.0.mixer@0', timeOf(timed(), 2)), 'blocks.0.mixer@2');
  assert.equal(siteAt(sites, 'head', timeOf(timed(), 2)), 'head');
  assert.equal(siteAt(sites, 'blocks.0.mixer@0', null), 'blocks.0.mixer@0');
  assert.equal(siteAt(sites, null, timeOf(timed(), 2)), null);
});

test('a step moves the state, and stops at either end', () => {
  const state = { ...INITIAL, look: lookAt(timed()), time: timeOf(timed(), 1), site: 'blocks.0.mixer@1' };
  assert.deepEqual(moved(state, 1), { time: timeOf(timed(), 2), site: 'blocks.0.mixer@2' });
  assert.deepEqual(moved(state, -5).time.index, 0);
  assert.deepEqual(moved({ ...state, time: null }, 1), {});
  assert.equal(momentWords(timeOf(timed(), 1)), 'recycling 1 of 0 to 2');
});

test('the address holds the moment, and nothing where there is none', () => {
  const hash = writeHash({ ...INITIAL, model: 'fold', time: timeOf(timed(), 1) });
  assert.equal(new URLSearchParams(hash.slice(1)).get('time'), '1');
  assert.equal(readHash(hash).patch.time.index, 1);
  assert.equal(readHash('#model=a&time=x').patch.time, undefined);
  assert.ok(!writeHash({ ...INITIAL, model: 'fold' }).includes('time'));
});
