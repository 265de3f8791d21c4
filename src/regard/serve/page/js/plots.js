// A few small plot forms in SVG: points per group, and bars of either sign; and the axes that every plot stands on.

import { shape } from './dom.js';

export const TALL_PLOT = 250;
export const EDGE = { left: 62, right: 44, top: 14, bottom: 36 };

/** Round ticks from low to high, about five of them. @param {number} low @param {number} high */
export function ticksOf(low, high) {
  const rough = (high - low || 1) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = ([1, 2, 5, 10].find((each) => each * power >= rough) ?? 10) * power;
  const first = Math.floor(low / step);
  const last = Math.ceil(high / step - 1e-9);
  return Array.from({ length: last - first + 1 }, (_, index) => Number(((first + index) * step).toPrecision(6)));
}

/** @param {PlotAxes} facts */
export function axesOf({ wide, x, y, xTicks, yTicks, xName, yName }) {
  const middle = (TALL_PLOT - EDGE.bottom + EDGE.top) / 2;
  return [
    ...yTicks.map((tick) =>
      shape(
        'g',
        { class: 'tick' },
        shape('line', { x1: EDGE.left, x2: wide - EDGE.right, y1: y(tick), y2: y(tick) }),
        shape(
          'text',
          { x: EDGE.left - 8, y: y(tick), 'text-anchor': 'end', 'dominant-baseline': 'central' },
          String(tick).replace('-', '−'),
        ),
      ),
    ),
    ...xTicks.map(([place, text]) =>
      shape('text', { class: 'tick', x: x(place), y: TALL_PLOT - EDGE.bottom + 16, 'text-anchor': 'middle' }, text),
    ),
    shape(
      'text',
      { class: 'axis', x: (EDGE.left + wide - EDGE.right) / 2, y: TALL_PLOT - 5, 'text-anchor': 'middle' },
      xName,
    ),
    shape('text', { class: 'axis', transform: `translate(11 ${middle}) rotate(-90)`, 'text-anchor': 'middle' }, yName),
  ];
}

/** @param {number} from @param {number} to @param {number} start @param {number} end */
export const straight = (from, to, start, end) => (/** @type {number} */ value) => start + ((value - from) / (to - from || 1)) * (end - start);

/** @param {number} wide @param {string} label @param {...Child} children */
export function plotOf(wide, label, ...children) {
  return shape(
    'svg',
    { class: 'plot', viewBox: `0 0 ${wide} ${TALL_PLOT}`, role: 'img', 'aria-label': label },
    ...children,
  );
}

/** Dots in columns: one column per site, one dot per head, a line through the means; a head without a number has none.
    @param {DotsFacts} facts */
export function dots({ wide, label, groups, names, xName, yName, chosen, onChoose }) {
  /** @param {(number | null)[]} group */
  const known = (group) => group.flatMap((value) => (value !== null && Number.isFinite(value) ? [value] : []));
  const flat = known(groups.flat());
  const ticks = ticksOf(Math.min(0, ...flat), Math.max(...flat, 1e-6));
  const x = straight(0, Math.max(1, groups.length - 1), EDGE.left + 22, wide - EDGE.right - 14);
  const y = straight(ticks[0], ticks[ticks.length - 1], TALL_PLOT - EDGE.bottom, EDGE.top);
  const means = groups.map(known).map((group) => group.reduce((sum, value) => sum + value, 0) / group.length);
  const path = means.map((value, index) => `${index ? 'L' : 'M'}${x(index)} ${y(value)}`).join('');
  const marks = groups.flatMap((group, place) =>
    group.flatMap((value, head) => {
      if (value === null || !Number.isFinite(value)) return [];
      const spread = group.length > 1 ? ((head * 7) % group.length) / group.length - 0.5 : 0;
      const on = chosen.place === place && chosen.head === head;
      return shape(
        'circle',
        {
          class: on ? 'dot on' : 'dot',
          cx: x(place) + spread * Math.min(26, wide / 16),
          cy: y(value),
          r: on ? 6 : 4,
          onClick: () => onChoose(place, head),
        },
        shape('title', {}, `${names[place]}, head ${head}: ${value.toPrecision(3)}`),
      );
    }),
  );
  const every = Math.ceil((groups.length * 62) / wide);
  /** @type {[number, string][]} */
  const named = names.map((name, index) => [index, name]);
  const xTicks = named.filter(([index]) => index % every === 0);
  return plotOf(
    wide,
    label,
    axesOf({ wide, x, y, xTicks, yTicks: ticks, xName, yName }),
    shape('path', { class: 'curve', d: path }),
    marks,
    shape(
      'text',
      {
        class: 'direct',
        x: Math.min(wide - 40, x(groups.length - 1) + 16),
        y: y(means[means.length - 1]),
        'dominant-baseline': 'central',
      },
      'mean',
    ),
  );
}

/** Bars over tokens, up or down from zero. @param {BarsFacts} facts */
export function bars({ wide, label, values, names, yName, marked }) {
  const ticks = ticksOf(Math.min(0, ...values), Math.max(1e-9, ...values));
  const x = straight(0, values.length, EDGE.left, wide - EDGE.right);
  const y = straight(ticks[0], ticks[ticks.length - 1], TALL_PLOT - EDGE.bottom - 22, EDGE.top);
  const width = Math.max(1, (x(1) - x(0)) * 0.76);
  const room = x(1) - x(0);
  const every = Math.max(1, Math.ceil(14 / room));
  return plotOf(
    wide,
    label,
    axesOf({ wide, x, y, xTicks: [], yTicks: ticks, xName: '', yName }),
    values.map((value, index) =>
      shape(
        'rect',
        {
          class: index === marked ? 'bar on' : 'bar',
          x: x(index + 0.5) - width / 2,
          width,
          y: Math.min(y(0), y(value)),
          height: Math.max(0.75, Math.abs(y(value) - y(0))),
          rx: 2,
        },
        shape('title', {}, `${names[index]}: ${value.toPrecision(3)}`),
      ),
    ),
    names.map((name, index) =>
      index % every
        ? null
        : shape(
            'text',
            {
              class: 'tick',
              transform: `translate(${x(index + 0.5)} ${TALL_PLOT - EDGE.bottom - 8}) rotate(35)`,
              'text-anchor': 'start',
            },
            name.length > 10 ? `${name.slice(0, 9)}…` : name,
          ),
    ),
  );
}
