// Small looks for the tests, and the few things of a browser that modules ask for when they run.

import { Look } from '../../../src/regard/serve/page/js/source.js';

export const JS = '../../../src/regard/serve/page/js';

const words = { kind: 'text', size: 3, labels: ['a', 'red', ' '], grid: null, special: 0 };
const patches = { kind: 'image', size: 5, labels: null, grid: [2, 2], special: 1 };

const plain = {
  part: '', role: 'self', layer: 0, heads: 2, rows: 'tokens', columns: 'tokens', kind: 'weights', mechanism: 'Softmax',
  arithmetic: true, scale: 0.5, calls: 1,
};

export const site = (name, more = {}) => ({ ...plain, name, ...more });

export function documentOf(sites, more = {}) {
  return {
    format: 1,
    id: '0',
    model: { name: 'made-up', title: 'made up', family: 'none', task: null, parameters: 0, takes: 'text', source: 'shipped' },
    input: { kind: 'text', text: 'a red' },
    changes: [],
    answer: { kind: 'none' },
    before: null,
    axes: { tokens: words, patches },
    sites,
    ...more,
  };
}

/** Three recyclings of one module, and a head that runs once. */
export const timed = () =>
  documentOf([0, 1, 2].map((time) => site(`blocks.0.mixer@${time}`, { time, calls: 3 })).concat(site('head')), {
    time: { unit: 'recycling', count: 3 },
  });

export const lookAt = (document) => new Look(document);

/** All that was put off to the end of this turn. */
export const settled = () => new Promise((resolve) => setTimeout(resolve, 0));
