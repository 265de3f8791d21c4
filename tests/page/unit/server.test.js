// Requests: what is left is given up, what was dropped is sent again, and files go as bytes.

import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';

import { loader } from '../../../src/regard/serve/page/js/loader.js';
import { ServerSource } from '../../../src/regard/serve/page/js/server.js';
import { isAbort, Trouble } from '../../../src/regard/serve/page/js/source.js';
import { createStore } from '../../../src/regard/serve/page/js/store.js';
import { documentOf, settled, site } from './documents.js';

let asked = [];
let answers = {};

/** A server that answers what the test says, or never. */
globalThis.fetch = (address, { signal, ...options } = {}) => {
  const path = address.replace('api/v1/', '').split('?')[0];
  asked.push({ path, signal, ...options });
  const answer = answers[path]?.(options);
  return new Promise((resolve, reject) => {
    signal?.addEventListener('abort', () => reject(new DOMException('left', 'AbortError')));
    if (answer) resolve(answer);
  });
};
globalThis.requestAnimationFrame = (run) => setTimeout(run, 0);

const json = (data, status = 200) => new Response(JSON.stringify(data), { status });
const found = (id) => json(documentOf([site('blocks.0.mixer')], { id }));

beforeEach(() => {
  asked = [];
  answers = {};
});

test('a new look gives up the one before, and all that was asked of it', async () => {
  const store = createStore();
  loader(store, new ServerSource());
  answers.look = () => found('one');
  store.set({ model: 'recall', input: { kind: 'text', text: 'a' }, site: 'blocks.0.mixer' });
  await settled();
  await settled();
  assert.equal(store.state.look.document.id, 'one');
  const waiting = asked.filter((one) => one.path.startsWith('looks/one'));
  assert.ok(waiting.length >= 2, 'its map and its cell');
  answers.look = () => null; // takes for ever
  store.set({ input: { kind: 'text', text: 'b' } });
  await settled();
  assert.ok(waiting.every((one) => one.signal.aborted));
  const second = asked.findLast((one) => one.path === 'look');
  assert.ok(!second.signal.aborted);
  store.set({ input: { kind: 'text', text: 'c' } });
  await settled();
  assert.ok(second.signal.aborted);
  assert.equal(store.state.error, '', 'who left is told nothing');
});

test('a look that failed leaves the one before, which asks anew for what it lacks', async () => {
  const store = createStore();
  loader(store, new ServerSource());
  answers.look = () => found('one');
  store.set({ model: 'recall', input: { kind: 'text', text: 'a' }, site: 'blocks.0.mixer' });
  await settled();
  await settled();
  const before = asked.length;
  answers.look = () => json({ error: { what: 'too long' } }, 422);
  store.set({ input: { kind: 'text', text: 'b' } });
  for (let turn = 0; turn < 4; turn += 1) await settled();
  assert.equal(store.state.error, 'too long.');
  assert.equal(store.state.look.document.id, 'one');
  assert.ok(asked.slice(before).some((one) => one.path.startsWith('looks/one') && !one.signal.aborted));
});

test('a file goes as its bytes, and is sent again if the server dropped it', async () => {
  const source = new ServerSource();
  const blob = new Blob(['bytes'], { type: 'image/png' });
  const id = '0'.repeat(32);
  answers.upload = () => json({ id });
  assert.deepEqual(await source.upload(blob), { id });
  assert.equal(asked[0].headers['Content-Type'], 'image/png');
  assert.equal(asked[0].body, blob);
  let times = 0;
  answers.look = () => ((times += 1) === 1 ? json({ error: { what: 'gone' } }, 410) : found('one'));
  const look = await source.open({ model: 'digits', input: { kind: 'image', upload: id }, changes: [] });
  assert.equal(look.document.id, 'one');
  assert.deepEqual(asked.map((one) => one.path), ['upload', 'look', 'upload', 'look']);
});

test('errors are told in their own words', async () => {
  answers.models = () => json({ error: { what: 'no', got: 'x', expected: 'y.', fix: 'do z' } }, 422);
  await assert.rejects(new ServerSource().models(), (error) => error instanceof Trouble && error.message === 'no. got x, expected y. do z.');
  answers.figures = () => new Response('<html>', { status: 500 });
  await assert.rejects(new ServerSource().figures(), /responded with status 500/);
  assert.ok(isAbort(new DOMException('', 'AbortError')) && !isAbort(new Error('AbortError')));
});
