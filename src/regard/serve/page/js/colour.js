// Colour ramps. The stops are design tokens in style.css; here they become tables of 256 colours,
// mixed in OKLab so that equal steps in weight look like equal steps in lightness.

const SHADES = 256;

/** @param {string} text */
function stopsOf(text) {
  return [...text.matchAll(/oklch\(([^)]+)\)/g)].map(([, numbers]) => {
    const [lightness, chroma, hue] = numbers.trim().split(/\s+/).map(Number);
    const angle = (hue * Math.PI) / 180;
    return [lightness, chroma * Math.cos(angle), chroma * Math.sin(angle)];
  });
}

/** @param {number[]} facts */
function toBytes([lightness, a, b]) {
  const long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const short = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
    -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
    -0.0041960863 * long - 0.7034186147 * medium + 1.707614701 * short,
  ].map((light) => {
    const value = Math.min(1, Math.max(0, light));
    return Math.round(255 * (value <= 0.0031308 ? 12.92 * value : 1.055 * value ** (1 / 2.4) - 0.055));
  });
}

/** @param {number[]} bytes */
const written = (bytes) => `rgb(${bytes.join(', ')})`;

/** Black or white, whichever is read better on a colour: one of them always has a contrast of 4.5 to 1.
    @param {string} ground as `css` writes it */
export function inkOn(ground) {
  const [red, green, blue] = [...ground.matchAll(/\d+/g)].map(([byte]) => {
    const part = Number(byte) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 ? 'rgb(0, 0, 0)' : 'rgb(255, 255, 255)';
}

/** @param {number[][]} stops */
function ramp(stops) {
  const colours = Array.from({ length: SHADES }, (_, step) => {
    const place = (step / (SHADES - 1)) * (stops.length - 1);
    const index = Math.min(stops.length - 2, Math.floor(place));
    const part = place - index;
    return toBytes(stops[index].map((value, axis) => value * (1 - part) + stops[index + 1][axis] * part));
  });
  /** @param {number} place */
  const css = (place) => written(colours[Math.max(0, Math.min(SHADES - 1, Math.round(place * (SHADES - 1))))]);
  return {
    css,
    words: Uint32Array.from(colours, ([red, green, blue]) => ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0),
    gradient: () => Array.from({ length: 9 }, (_, step) => css(step / 8)).join(', '),
  };
}

/** Read the tokens of the theme in force at this element. Colours are written as rgb, so that saved SVG opens anywhere.
    @param {Element} root */
export function palette(root) {
  const style = getComputedStyle(root);
  /** @param {string} name */
  const stops = (name) => stopsOf(style.getPropertyValue(name));
  /** @param {string} name */
  const colour = (name) => written(toBytes(stops(name)[0]));
  return {
    weight: ramp(stops('--ramp-weight')),
    difference: ramp(stops('--ramp-difference')),
    overlay: ramp(stops('--ramp-overlay')),
    signs: ramp(stops('--ramp-signs')),
    ink: colour('--ink'),
    soft: colour('--ink-soft'),
    surface: colour('--surface'),
    query: colour('--query'),
    key: colour('--key'),
    accent: colour('--accent'),
    second: colour('--second'),
    font: style.getPropertyValue('--sans').trim(),
  };
}

const byName = new Map(); // a scale is made once, so that it can be compared

/** @param {string} name @param {() => Scale} make */
function madeOnce(name, make) {
  if (!byName.has(name)) byName.set(name, make());
  return byName.get(name);
}

/** How a number becomes a place on a ramp (0 to 1), and which ticks its legend shows. */
export const scales = {
  linear: { place: (/** @type {number} */ weight) => weight, ticks: [0, 0.25, 0.5, 0.75, 1], ramp: 'weight', share: true },
  root: { place: (/** @type {number} */ weight) => Math.sqrt(weight), ticks: [0, 0.05, 0.2, 0.5, 1], ramp: 'weight', share: true },
  /** An influence has no natural end: the ramp goes to the largest one of its map. */
  influence: (/** @type {number} */ limit, /** @type {Contrast} */ contrast) =>
    madeOnce(`influence ${limit} ${contrast}`, () => ({
      place: contrast === 'root' ? (value) => Math.sqrt(value / limit) : (value) => value / limit,
      ticks: [0, limit],
      ramp: 'weight',
    })),
  difference: (/** @type {number} */ limit) =>
    madeOnce(`difference ${limit}`, () => ({
      place: (/** @type {number} */ value) => (value / limit + 1) / 2,
      ticks: [-limit, 0, limit],
      ramp: 'difference',
    })),
};

/** A limit that is round enough to be read: the next 1, 2 or 5 of its power of ten. @param {number} value */
export function roundLimit(value) {
  if (!(value > 0)) return 0.1;
  const power = 10 ** Math.floor(Math.log10(value));
  return Number((([1, 2, 5, 10].find((step) => step * power >= value * 0.999) ?? 10) * power).toPrecision(1));
}
