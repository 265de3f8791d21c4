// The matrix in force: one map, or the difference of two. The large view, its table and the export all ask here.

import { headWord, labelsOf, sentenceCase } from './axes.js';
import { roundLimit, scales } from './colour.js';
import { clamp, furthest, hasSign, number, percent, signed } from './dom.js';
import { apartWords, differenceOf } from './loader.js';

/** The parts of the state that decide the matrix. */
export const MATRIX = /** @type {(keyof State)[]} */ (['sheet', 'secondSheet', 'view', 'contrast', 'arrived']);

const signs = new WeakMap();

/** A site as this map of it is: weights of both signs are a kind of their own. Halved copies do not tell the sign.
    @param {Site} site @param {SheetLike} sheet */
function asShown(site, sheet) {
  if (!sheet.exact || site.kind !== 'weights') return site;
  if (!signs.has(sheet)) signs.set(sheet, hasSign(sheet.exact));
  return signs.get(sheet) ? { ...site, kind: 'signed' } : site;
}

/** The map that is on the screen, with its site and axes; the chosen cell as far as it exists there.
    @param {State} state */
export function inForce(state) {
  if (!state.sheet) return null;
  const { look, head, sheet } = state.sheet;
  const site = asShown(look.at(state.sheet.site), sheet);
  const { axes } = look.document;
  return {
    look,
    site,
    head,
    sheet,
    rowAxis: axes[site.rows],
    columnAxis: axes[site.columns],
    query: clamp(state.query, 0, sheet.rows - 1),
    key: clamp(state.key, 0, sheet.columns - 1),
  };
}

const limits = new WeakMap();

/** The largest magnitude of a sheet; of one that comes in levels, of what is there. @param {SheetLike} sheet */
function limitOf(sheet) {
  if (!limits.has(sheet)) {
    const values = sheet.exact ?? sheet.level(0)?.found.values;
    if (!values) return 1;
    limits.set(sheet, furthest(values) || 1);
  }
  return limits.get(sheet);
}

/** @param {Site} site @param {SheetLike} sheet @param {Contrast} contrast */
export function scaleOf(site, sheet, contrast) {
  if (site.kind === 'signed') return scales.difference(roundLimit(limitOf(sheet)));
  return site.kind === 'influence' ? scales.influence(limitOf(sheet), contrast) : scales[contrast];
}

/** How a number of this matrix is written. @param {Matrix} facts */
export function writerOf({ site, differs }) {
  if (site.kind === 'signed' || (site.kind === 'influence' && differs)) return (/** @type {number} */ value) => signed(value, 3);
  if (site.kind === 'influence') return (/** @type {number} */ value) => value.toPrecision(3);
  return differs ? (/** @type {number} */ value) => `${signed(100 * value, 1)} points` : (/** @type {number} */ value) => percent(value);
}

/** The difference map, why there is none, or the map itself. @param {State} state @returns {Matrix | null} */
export function currentMatrix(state) {
  const force = inForce(state);
  if (!force) return null;
  const { site, head, sheet, rowAxis, columnAxis } = force;
  const plain = {
    ...force,
    rows: labelsOf(rowAxis),
    columns: labelsOf(columnAxis),
    differs: false,
    scale: scaleOf(site, sheet, state.contrast),
    name: sentenceCase(headWord(site, head)),
  };
  if (state.view !== 'compare' || !state.secondSheet) return plain;
  const difference = differenceOf(state);
  if (!difference) return { ...plain, apart: apartWords(state) };
  return {
    ...plain,
    site: asShown(site, state.secondSheet.sheet),
    sheet: difference,
    differs: true,
    scale: scales.difference(roundLimit(limitOf(difference))),
    name: `${sentenceCase(headWord(site, head))} minus ${secondWord(state)}`,
  };
}

/** The second map of a comparison, in words. @param {State} state */
export function secondWord(state) {
  if (!state.secondSheet) return '';
  const { look, other, site, head } = state.secondSheet;
  const name = headWord(look.at(site), head);
  return other ? `${other.model ?? other.attention}: ${name}` : name;
}

/** @param {Scale} scale @param {number} tick */
export const tickOf = (scale, tick) => {
  if (scale.ramp === 'difference') return tick === 0 ? '0' : signed(tick, Math.max(1, -Math.floor(Math.log10(Math.abs(tick)))));
  if (!scale.share) return tick === 0 ? '0' : number(tick, 2);
  return tick === 1 ? percent(1, 0) : String(100 * tick);
};
