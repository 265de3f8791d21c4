// Series: numbers with times, from a csv file; what is foretold is drawn as a line within its interval.

import { beside } from '../beside.js';
import { button, element, shape } from '../dom.js';
import { axesOf, EDGE, plotOf, straight, TALL_PLOT, ticksOf } from '../plots.js';
import { profileStrip } from '../profile.js';

/** @typedef {Input & { name?: string, times?: string[], values?: number[], csv?: string }} SeriesInput */
/** @typedef {Answer & { series: string, times: string[], quantiles: Record<string, number[]> }} Forecast */

const WIDE_FORECAST = 360;
const LARGEST_FILE = 1 << 20; // letters that the server takes

/** @param {number} value */
const rounded = (value) => String(Number(value.toPrecision(4)));

/** @param {Input} input */
const seriesNamed = (input) => /** @type {SeriesInput} */ (input).name ?? '';

/** Quantiles in rising order, each with its values. @param {Forecast} answer */
const risingQuantiles = (answer) =>
  Object.entries(answer.quantiles).sort(([first], [second]) => Number(first) - Number(second));

/** @param {Forecast} answer */
const medianOf = (answer) => answer.quantiles['0.5'] ?? [];

/** @param {Answer} told */
function forecastPlot(told) {
  const answer = /** @type {Forecast} */ (told);
  const rows = risingQuantiles(answer).map(([, values]) => values);
  const [lowest, highest] = [rows[0], rows[rows.length - 1]];
  const last = answer.times.length - 1;
  const ticks = ticksOf(Math.min(...lowest), Math.max(...highest));
  const x = straight(0, Math.max(last, 1), EDGE.left, WIDE_FORECAST - EDGE.right);
  const y = straight(ticks[0], ticks[ticks.length - 1], TALL_PLOT - EDGE.bottom, EDGE.top);
  /** @param {number[]} values @param {number[]} places */
  const points = (values, places) => places.map((place) => `${x(place)},${y(values[place])}`);
  const ahead = answer.times.map((_, place) => place);
  const names = last > 4 ? [Math.round(last * 0.2), Math.round(last * 0.8)] : [0]; // within the plot, and apart
  return plotOf(
    WIDE_FORECAST,
    `${answer.series || 'The series'}: ${rounded(medianOf(answer)[0])} at ${answer.times[0]}, ${rounded(medianOf(answer)[last])} at ${answer.times[last]}`,
    ...axesOf({
      wide: WIDE_FORECAST,
      x,
      y,
      xTicks: names.map((place) => [place, answer.times[place]]),
      yTicks: ticks,
      xName: '',
      yName: answer.series,
    }),
    shape('polygon', {
      points: [...points(lowest, ahead), ...points(highest, [...ahead].reverse())].join(' '),
      style: 'fill: var(--accent); opacity: 0.16; stroke: none',
    }),
    shape('polyline', {
      points: points(medianOf(answer), ahead).join(' '),
      style: 'fill: none; stroke: var(--accent); stroke-width: 2.2',
    }),
  );
}

/** @param {ControlFacts} facts */
function seriesControl({ store, give, take }) {
  const told = element('span', { class: 'ask-drop' });
  const file = element('input', {
    type: 'file',
    accept: '.csv,text/csv',
    class: 'unseen',
    tabindex: -1,
    'aria-label': 'Choose a csv file',
    onChange: () => {
      const chosen = file.files?.[0];
      if (chosen) take(chosen);
      file.value = ''; // the same file may be chosen again
    },
  });
  const choose = button('plain', 'Choose…', () => file.click());
  const series = element('input', {
    type: 'text',
    class: 'ask-series',
    autocomplete: 'off',
    placeholder: 'series name',
    'aria-label': 'Name of the series, if the file has several',
    maxlength: 200,
    onChange: () => rename(),
  });

  /** Only a file may hold several series. */
  function rename() {
    const input = /** @type {SeriesInput | null} */ (store.state.input);
    const name = series.value.trim();
    if (input?.csv && name !== seriesNamed(input)) give(/** @type {SeriesInput} */ ({ ...input, name }));
  }

  return {
    nodes: [element('div', { class: 'ask-picture' }, told, series, file, choose)],
    show(/** @type {Input} */ input) {
      const { csv } = /** @type {SeriesInput} */ (input);
      series.hidden = !csv;
      series.value = seriesNamed(input);
      told.textContent = csv
        ? 'From a csv file; drop another here'
        : 'Drop a csv file here: a time column and value columns';
    },
    send: rename,
  };
}

/** @type {Medium} */
export const seriesMedium = {
  kinds: ['series'],
  takes: {
    series: () => {
      const values = Array.from({ length: 96 }, (_, place) => Math.sin(place / 4));
      return /** @type {SeriesInput} */ ({ kind: 'series', times: values.map((_, place) => String(place)), values });
    },
  },
  describe: seriesNamed,
  address: () => null,
  restore: (example) => example,
  python: () => '"series.csv"',
  accepts: (file) => file.name.toLowerCase().endsWith('.csv') || file.type === 'text/csv',
  fromFile: async (file) => {
    const csv = await file.text();
    if (csv.length > LARGEST_FILE) throw new Error('too large');
    return /** @type {SeriesInput} */ ({ kind: 'series', csv });
  },
  refused: 'This is not a csv file of at most a million characters.',
  control: seriesControl,
  axes: {
    time: { one: 'time', many: 'times', lays: () => true, strip: profileStrip },
  },
  answers: {
    forecast: {
      title: 'Forecast',
      top: (answer) => medianOf(/** @type {Forecast} */ (answer)).map(rounded).join(', '),
      body: (answer, before) => (before ? beside(forecastPlot(before), forecastPlot(answer)) : [forecastPlot(answer)]),
    },
  },
};
