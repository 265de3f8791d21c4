// Vectors as rows of small bars, and rows of weights.

import { element, shape } from './dom.js';

/** Small bars around a middle line; `limit` keeps several drawings on one scale.
    @param {Numbers} values @param {string} className @param {string} label */
export function vectorBars(values, className, label, limit = 0) {
  const numbers = Array.from(values);
  const top = limit || Math.max(...numbers.map(Math.abs)) || 1;
  const step = 100 / numbers.length;
  const rects = numbers.map((value, index) => {
    const height = (Math.abs(value) / top) * 13;
    return shape('rect', {
      x: index * step + step * 0.12,
      width: step * 0.76,
      y: value < 0 ? 14 : 14 - height,
      height: Math.max(0.4, height),
      class: value < 0 ? 'negative' : '',
    });
  });
  return shape(
    'svg',
    {
      class: `vector ${className}`,
      viewBox: '0 0 100 28',
      preserveAspectRatio: 'none',
      role: 'img',
      'aria-label': label,
    },
    shape('line', { x1: 0, x2: 100, y1: 14, y2: 14 }),
    rects,
  );
}

const WIDEST = 96;

/** Weights of one row as bars; of a long row those that are largest, in their order.
    @param {number[]} weights @param {number} chosen @param {string[]} labels
    @param {(value: number) => string} write */
export function rowOfBars(weights, chosen, labels, write) {
  let places = weights.map((_, index) => index);
  if (places.length > WIDEST) {
    places = [...places].sort((first, second) => weights[second] - weights[first]).slice(0, WIDEST / 2);
    if (!places.includes(chosen)) places.push(chosen);
    places.sort((first, second) => first - second);
  }
  return element(
    'div',
    { class: 'softmax', 'aria-hidden': 'true' },
    places.map((index) =>
      element('span', {
        class: index === chosen ? 'on' : '',
        'data-place': index,
        title: `${labels[index]} ${write(weights[index])}`,
        style: `--weight: ${weights[index]}`,
      }),
    ),
  );
}
