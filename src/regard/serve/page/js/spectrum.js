// The spectrum of a map: singular values and moduli of eigenvalues in descending order, and the mass of the former.

import { siteCalled } from './axes.js';
import { element, percent, shape } from './dom.js';
import { axesOf, EDGE, plotOf, straight, TALL_PLOT, ticksOf } from './plots.js';

const MOST_DOTS = 40; // values; more of them are a line
const BOTTOM = TALL_PLOT - EDGE.bottom;

/** One line over 1, 2, 3 ...; its dots say their number.
    @param {SpectrumLine} facts @param {(value: number) => number} x @param {(value: number) => number} y */
function line({ name, values, look, write }, x, y) {
  /** @param {number} value @param {number} index */
  const at = (value, index) => `${x(index + 1).toFixed(1)} ${y(value).toFixed(1)}`;
  /** @param {number} value @param {number} index */
  const dot = (value, index) =>
    shape(
      'circle',
      { class: `dot on ${look}`, cx: x(index + 1), cy: y(value), r: 3.5 },
      shape('title', {}, `${name} ${index + 1}: ${write(value)}`),
    );
  return [
    shape('path', { class: `curve ${look}`, d: `M${values.map(at).join('L')}` }),
    values.length <= MOST_DOTS ? values.map(dot) : [],
  ];
}

/** Values read on the left, shares on the right.
    @param {{ wide: number; values: SpectrumLine[]; shares: SpectrumLine }} facts */
function falling({ wide, values, shares }) {
  const count = shares.values.length;
  const ticks = ticksOf(0, Math.max(...values.flatMap((one) => one.values)));
  const x = straight(1, Math.max(2, count), EDGE.left + 10, wide - EDGE.right - 10);
  const y = straight(0, ticks[ticks.length - 1], BOTTOM, EDGE.top);
  const right = straight(0, 1, BOTTOM, EDGE.top);
  const places = ticksOf(1, count).filter((tick) => tick >= 1 && tick <= count && Number.isInteger(tick));
  /** @type {[number, string][]} */
  const xTicks = places.map((tick) => [tick, String(tick)]);
  /** @param {number} tick */
  const share = (tick) =>
    shape(
      'text',
      { class: 'tick', x: wide - EDGE.right + 6, y: right(tick), 'dominant-baseline': 'central' },
      percent(tick, 0),
    );
  return plotOf(
    wide,
    `${[...values, shares].map((one) => one.name).join(', ')}, in descending order`,
    axesOf({ wide, x, y, xTicks, yTicks: ticks, xName: 'in descending order', yName: 'value' }),
    [0, 0.5, 1].map(share),
    [shares, ...values].map((one) => line(one, x, one === shares ? right : y)),
  );
}

/** @param {SpectrumLine} facts */
const signOf = ({ name, look }) =>
  element(
    'span',
    {},
    shape(
      'svg',
      { class: 'plot-sign', viewBox: '0 0 22 10', 'aria-hidden': 'true' },
      shape('path', { class: `curve ${look}`, d: 'M0 5H22' }),
      shape('circle', { class: `dot on ${look}`, cx: 11, cy: 5, r: 3.5 }),
    ),
    name,
  );

/** What eigenvalues tell; there are none (null) where positions do not go on to themselves, and a saved page has none.
    @param {number[] | null | undefined} moduli */
function eigenWords(moduli) {
  if (moduli === undefined) return '';
  if (!moduli) return ' Queries and keys are different sequences, so there are no eigenvalues.';
  if (moduli.length < 2) return '';
  const [first, next] = moduli.map((value) => value.toFixed(2));
  return ` The largest eigenvalue has modulus ${first}, the next ${next}: the closer to 1, the slower it decays when the map is applied repeatedly.`;
}

/** @param {PartFacts} facts */
export function spectrumPart({ found, force, wide }) {
  const { singular, mass, rank } = found;
  const moduli = siteCalled(force.look, found.site)?.role === 'cross' ? null : found.moduli; // square by chance, at most
  const count = singular.length;
  const enough = mass.findIndex((share) => share >= 0.9) + 1;
  /** @param {number} value */
  const exactly = (value) => value.toFixed(4);
  const shares = { name: 'cumulative share of the singular values', values: mass, look: 'faint', write: (/** @type {number} */ share) => percent(share) };
  const values = [
    { name: 'singular value', values: singular, look: '', write: exactly },
    ...(moduli ? [{ name: '|eigenvalue|', values: moduli, look: 'other', write: exactly }] : []),
  ];
  return {
    finding: [
      `Effective rank ${rank.toFixed(1)} of ${count}; ${enough} of ${count} singular values make up 90 % of their sum.`,
      eigenWords(moduli),
    ],
    plot: element(
      'div',
      {},
      element('p', { class: 'plot-names' }, [...values, shares].map(signOf)),
      falling({ wide, values, shares }),
    ),
    table: {
      caption: 'Spectrum',
      columns: ['index', 'singular value', 'cumulative share', ...(moduli ? ['|eigenvalue|'] : [])],
      rows: singular.map((value, index) => [
        String(index + 1),
        exactly(value),
        percent(mass[index]),
        ...(moduli ? [exactly(moduli[index])] : []),
      ]),
    },
  };
}
