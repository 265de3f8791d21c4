import assert from 'node:assert/strict';
import { test } from 'node:test';

import { inkOn, palette, roundLimit, scales } from '../../../src/regard/serve/page/js/colour.js';

test('limits are round enough to be read', () => {
  assert.deepEqual([0.031, 0.5, 0.51, 7, 0, NaN].map(roundLimit), [0.05, 0.5, 1, 10, 0.1, 0.1]);
});

test('scales place numbers on their ramps', () => {
  assert.equal(scales.root.place(0.25), 0.5);
  assert.equal(scales.linear.place(0.25), 0.25);
  assert.equal(scales.difference(0.5).place(0), 0.5);
  assert.equal(scales.difference(0.5).place(-0.5), 0);
  assert.equal(scales.influence(4, 'root').place(1), 0.5);
  assert.equal(scales.difference(0.5), scales.difference(0.5), 'made once, so that it can be compared');
});

test('a palette is read from the tokens of the theme', () => {
  const tokens = { '--ramp-weight': 'oklch(1 0 0), oklch(0 0 0)', '--sans': ' sans ' };
  const style = { getPropertyValue: (name) => tokens[name] ?? 'oklch(0.5 0.1 30), oklch(0.6 0.1 30)' };
  globalThis.getComputedStyle = () => style;
  const { weight, font, query } = palette(null);
  assert.equal(weight.css(0), 'rgb(255, 255, 255)');
  assert.equal(weight.css(1), 'rgb(0, 0, 0)');
  assert.equal(weight.words[0], 0xffffffff);
  assert.equal(font, 'sans');
  assert.match(query, /^rgb\(\d+, \d+, \d+\)$/);
});

test('what stands on a colour of a ramp can be read', () => {
  const light = ([red, green, blue]) => {
    const parts = [red, green, blue].map((byte) => byte / 255).map((x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4));
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  };
  const bytes = (css) => css.match(/\d+/g).map(Number);
  for (let grey = 0; grey < 256; grey += 1)
    for (const ground of [[grey, grey, grey], [grey, 90, 200], [grey, 0, 80], [40, grey, 60]]) {
      const css = `rgb(${ground.join(', ')})`;
      const [low, high] = [light(ground), light(bytes(inkOn(css)))].sort((first, second) => first - second);
      assert.ok((high + 0.05) / (low + 0.05) >= 4.5, css);
    }
});
