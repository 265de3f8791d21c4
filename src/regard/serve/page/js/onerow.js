// Maps of one row over a picture, as a class token has them that looks alone: a line of 197 cells says nothing in a
// thumbnail, so they are shown as the picture's own grid, each stretched to its largest weight.

import { isPicture, patchOf } from './axes.js';

/** The axis of the picture that the only row of this site looks at; null of other sites. */
export function pictureOfRow(look, site) {
  const { axes } = look.document;
  return axes[site.rows].size === 1 && isPicture(axes[site.columns]) ? axes[site.columns] : null;
}

/** The small copies of such sites: Map(site name -> one for each head). */
export async function rowCopies(look) {
  const sites = look.document.sites.filter((site) => pictureOfRow(look, site));
  const copiesOf = async (site) => {
    const { grid, special } = pictureOfRow(look, site);
    const heads = Array.from({ length: site.heads }, (_, head) => look.sheet(site.name, head));
    const sheets = await Promise.all(heads);
    const copy = (sheet) => ({ values: sheet.row(0).subarray(special), rows: grid[0], columns: grid[1] });
    return [site.name, sheets.map(copy)];
  };
  return new Map(await Promise.all(sites.map(copiesOf)));
}

/** Where a key lies in such a thumbnail, from the top and from the left, in shares of its sides. */
export function placeInRow(axis, position) {
  if (position < axis.special) return [null, null];
  const [row, column] = patchOf(axis, position);
  return [(row + 0.5) / axis.grid[0], (column + 0.5) / axis.grid[1]];
}
