// Where looks come from: one interface, kept by a server (server.js) and by data in the page itself (embedded.js).
//
// A source:  open({ model, input, changes }, signal) -> promise of a look
//            models(), figures(), attentions(model) -> promises of lists
//            compare(first, second, signal) -> promise of { look, sites }
//            can: { write, intervene, compare, exportPage }: what it is able to do
// A look:    document; sheet(site, head) -> promise of a Sheet; thumbnails() -> promise of Map(site name -> levels)
//            cell(site, head, row, column), analysis(name, asked) -> promises of what the API calls so

import { Sheet } from './sheet.js';
import { halve, halvings, sides } from './bytes.js';

/** Maps with more cells than this come in levels, never whole. */
export const WHOLE = 512 * 512;

/** Words that a reader can use, from an answer of the API or a failure of the network. */
export class Trouble extends Error {
  constructor({ what, got, expected, fix }, status = 0) {
    const clean = (text) => String(text).replace(/\.$/, '');
    const middle = [got && `got ${clean(got)}`, expected && `expected ${clean(expected)}`].filter(Boolean).join(', ');
    super([clean(what), middle, fix && clean(fix)].filter(Boolean).join('. ') + '.');
    this.status = status;
  }
}

/** What a reader is told of a failure: its own words where it has some, and never what the language says of its insides. */
export function inWords(error, otherwise) {
  if (error instanceof Trouble) return error.message;
  console.error(error);
  return otherwise;
}

export class Look {
  constructor(document) {
    this.document = document;
    this.sites = new Map(document.sites.map((site) => [site.name, site]));
    this.sheets = new Map();
  }

  shape(name) {
    const site = this.sites.get(name);
    return [this.document.axes[site.rows].size, this.document.axes[site.columns].size];
  }

  sheet(name, head) {
    const key = `${name} ${head}`;
    if (!this.sheets.has(key)) {
      if (this.sheets.size > 200) this.sheets.delete(this.sheets.keys().next().value);
      const made = this.makeSheet(name, head);
      made.catch(() => this.sheets.delete(key));
      this.sheets.set(key, made);
    }
    return this.sheets.get(key);
  }

  async makeSheet(name, head) {
    const [rows, columns] = this.shape(name);
    if (rows * columns <= WHOLE) return new Sheet({ rows, columns, exact: await this.fetchMap(name, head) });
    const level = halvings(rows, columns);
    const coarse = head === 'mean' ? null : (await this.thumbnails()).get(name)[head];
    return new Sheet({
      rows,
      columns,
      coarse: coarse ? { ...coarse, level } : null,
      fetchLevel: (index) => this.fetchLevel(name, head, index),
      fetchRow: (row) => this.fetchRow(name, head, row),
    });
  }

  /** Cut what came as one piece into the small copies of all heads of all sites. */
  cutThumbnails(values) {
    const found = new Map();
    let start = 0;
    for (const site of this.document.sites) {
      const [tall, wide] = this.shape(site.name);
      const [rows, columns] = sides(tall, wide, halvings(tall, wide));
      const copies = Array.from({ length: site.heads }, () => {
        const part = values.subarray(start, (start += rows * columns));
        return { values: part, rows, columns };
      });
      found.set(site.name, copies);
    }
    return found;
  }
}

/** A map halved until it is a thumbnail. */
export function shrunk(values, rows, columns) {
  let found = { values, rows, columns };
  for (let level = halvings(rows, columns); level > 0; level -= 1) found = halve(found);
  return found;
}
