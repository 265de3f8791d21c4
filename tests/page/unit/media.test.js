import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';

import { exampleOf, formOf, MEDIA, mediumOf, placesOf, stripOf } from '../../../src/regard/serve/page/js/media/index.js';
import { documentOf, lookAt, site } from './documents.js';

const PNG = 'data:image/png;base64,AAAA';
const PAGE = new URL('../../../src/regard/serve/page/js/', import.meta.url);

test('every kind of input and every word of the API has one medium', () => {
  const kinds = MEDIA.flatMap((one) => one.kinds);
  assert.equal(new Set(kinds).size, kinds.length);
  assert.deepEqual(kinds.toSorted(), ['caption', 'image', 'noise', 'pair', 'prompt', 'series', 'text']);
  const takes = MEDIA.flatMap((one) => Object.keys(one.takes));
  assert.deepEqual(takes.toSorted(), ['image', 'image+text', 'noise', 'pair', 'series', 'text', 'text+noise']);
});

test('a model is shown its own example, or something that it takes', () => {
  const own = { kind: 'text', text: 'mine' };
  assert.equal(exampleOf({ takes: 'pair', example: own }), own);
  assert.equal(exampleOf({ takes: 'pair' }).kind, 'pair');
  assert.equal(exampleOf({ takes: 'text' }).kind, 'text');
  assert.equal(exampleOf({ takes: 'series' }).kind, 'series');
});

test('an input is told in words, in Python and in the address, and read back', () => {
  const inputs = [
    [{ kind: 'text', text: 'a "b"' }, 'a "b"', '"a \\"b\\""', { text: 'a "b"' }],
    [{ kind: 'text', text: 'who?', second: 'Ida.' }, 'who?', '"who?", "Ida."', { text: 'who?', second: 'Ida.' }],
    [{ kind: 'pair', source: 'keys?', target: 'Schlüssel?' }, 'keys?', '"keys?"', { text: 'keys?' }],
    [{ kind: 'image', png: PNG }, '', '"picture.png"', { png: PNG }],
    [{ kind: 'noise', seed: 7 }, 'seed 7', '7', { seed: '7' }],
    [{ kind: 'prompt', text: 'a b', seed: 7 }, 'a b', '"a b", 7', { text: 'a b', seed: '7' }],
    [{ kind: 'caption', image: { kind: 'image', png: PNG }, target: 'a cat' }, '', '"picture.png"', { png: PNG }],
  ];
  for (const [input, words, python, address] of inputs) {
    const medium = mediumOf(input);
    assert.equal(medium.describe(input), words);
    assert.equal(medium.python(input), python);
    assert.deepEqual(medium.address(input), address);
    const again = medium.restore(input, address);
    assert.equal(again.kind, input.kind);
    assert.deepEqual(medium.address(again), address);
    assert.equal(again.target, undefined, 'what the model wrote belongs to what it was given before');
  }
});

test('an address that means nothing leaves the example', () => {
  for (const example of [{ kind: 'text', text: 'a' }, { kind: 'image', png: PNG }, { kind: 'caption', image: { kind: 'image', png: PNG } }])
    assert.equal(mediumOf(example).restore(example, { png: 'https:', series: '1' }), example);
  const noise = { kind: 'noise', seed: 7 };
  for (const seed of ['-1', '1.5', '', 'a', '9'.repeat(20)]) assert.equal(mediumOf(noise).restore(noise, { seed }), noise);
});

test('files go to who can read them', () => {
  assert.ok(mediumOf({ kind: 'image' }).accepts({ type: 'image/webp' }));
  assert.ok(mediumOf({ kind: 'caption' }).accepts({ type: 'image/png' }));
  assert.ok(!mediumOf({ kind: 'image' }).accepts({ type: 'audio/wav' }));
  assert.ok(!mediumOf({ kind: 'text' }).accepts({ type: 'image/png' }));
});

test('positions are shown as their medium does, over the input where there is one', () => {
  const { axes } = documentOf([]);
  const seen = lookAt(documentOf([site('one')], { input: { kind: 'image', png: PNG } }));
  const read = lookAt(documentOf([site('one')]));
  assert.equal(placesOf(axes.tokens).many, 'tokens');
  assert.equal(placesOf(axes.patches).many, 'patches');
  assert.equal(placesOf({ ...axes.tokens, kind: 'queries' }), null);
  assert.equal(placesOf({ ...axes.tokens, kind: 'constructor' }), null);
  assert.equal(stripOf(seen, axes.patches), placesOf(axes.patches).strip);
  assert.equal(stripOf(read, axes.patches), placesOf(axes.tokens).strip);
});

test('every kind of answer that the API has is told', () => {
  for (const kind of ['text', 'labels', 'next', 'filled', 'boxes']) assert.ok(formOf({ kind }).title, kind);
  assert.equal(formOf({ kind: 'none' }), null);
  const list = { kind: 'labels', labels: [['seven', 0.9], ['one', 0.1]] };
  assert.equal(formOf(list).top(list), 'seven');
  assert.ok(formOf({ kind: 'boxes' }).nothing({ kind: 'boxes', boxes: [] }));
  assert.equal(formOf({ kind: 'boxes' }).speaker, 'queries');
  const drawing = { kind: 'drawing', seed: 3, number: 0, width: 8, height: 6, png: PNG };
  assert.equal(formOf(drawing).top(drawing), '8 x 6 pixels of seed 3');
});

test('no other file of the page names a medium', () => {
  const named = /\.takes === '|\.(?:kind|takes) [!=]== '(?:text|pair|image|caption|image\+text|boxes|labels|next|filled|queries)'|'image\+text'|\.png\b/;
  for (const name of readdirSync(PAGE).filter((one) => one.endsWith('.js'))) {
    const text = readFileSync(new URL(name, PAGE), 'utf8');
    assert.ok(!named.test(text), name);
  }
});
