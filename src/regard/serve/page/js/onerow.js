// Maps of one row over a picture, as a class token has them that looks alone: a line of 197 cells says nothing in a
// thumbnail, so they are shown as the picture's own grid, each stretched to its largest weight.

import { isGrid, patchOf } from './axes.js';

/** The axis of the picture that the only row of this site looks at; null of other sites.
    @param {LookLike} look @param {Site} site */
export function pictureOfRow(look, site) {
  const { axes } = look.document;
  return axes[site.rows].size === 1 && isGrid(axes[site.columns]) ? axes[site.columns] : null;
}

/** The small copies of such sites: Map(site name -> one for each head). @param {LookLike} look */
export async function rowCopies(look) {
  const sites = look.document.sites.filter((site) => pictureOfRow(look, site));
  /** @param {Site} site */
  const copiesOf = async (site) => {
    const { grid, special } = /** @type {Axis} */ (pictureOfRow(look, site));
    const heads = Array.from({ length: site.heads }, (_, head) => look.sheet(site.name, head));
    const sheets = await Promise.all(heads);
    /** @param {SheetLike} sheet */
    const copy = (sheet) => {
      const values = (sheet.row(0) ?? new Float32Array()).subarray(special);
      return { values, rows: grid?.[0] ?? 1, columns: grid?.[1] ?? 1 };
    };
    return /** @type {[string, Copy[]]} */ ([site.name, sheets.map(copy)]);
  };
  return new Map(await Promise.all(sites.map(copiesOf)));
}

/** Where a key lies in such a thumbnail, from the top and from the left, in shares of its sides.
    @param {Axis} axis @param {number} position */
export function placeInRow(axis, position) {
  if (position < axis.special) return [null, null];
  const [row, column] = patchOf(axis, position);
  const [tall, wide] = axis.grid ?? [1, 1];
  return [(row + 0.5) / tall, (column + 0.5) / wide];
}
