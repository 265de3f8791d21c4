// Where looks come from: one interface, kept by a server (server.js) and by data in the page itself (embedded.js).
//
// A source:  open({ model, input, changes }, signal) -> promise of a look
//            models(), figures(), attentions(model) -> promises of lists
//            compare(first, second, signal) -> promise of { look, sites, answer }: the second, looked at with what the
//            first wrote; what it says by itself
//            upload(blob) -> promise of { id }, which an input may name
//            can: { write, intervene, compare, exportPage, analyse(name) }: what it is able to do
// A look:    document; sheet(site, head) -> promise of a Sheet; thumbnails() -> promise of Map(site name -> levels)
//            cell(site, head, row, column), analysis(name, asked, signal) -> promises of what the API calls so
//            leave(): what it still waits for is not wanted any more

import { Sheet } from './sheet.js';
import { halve, halvings, sides } from './bytes.js';

/** Maps with more cells than this come in levels, never whole. */
export const WHOLE = 512 * 512;

/** Room for one more. @template K, V @param {Map<K, V>} map @param {number} most */
export function dropOldest(map, most) {
  for (const key of map.keys()) {
    if (map.size < most) return;
    map.delete(key);
  }
}

/** Words that a reader can use, from an answer of the API or a failure of the network. */
export class Trouble extends Error {
  /** @param {TroubleWords} facts */
  constructor({ what, got, expected, fix }, status = 0) {
    /** @param {unknown} text */
    const clean = (text) => String(text).replace(/\.$/, '');
    const middle = [got && `got ${clean(got)}`, expected && `expected ${clean(expected)}`].filter(Boolean).join(', ');
    super([clean(what), middle, fix && clean(fix)].filter(Boolean).join('. ') + '.');
    this.status = status;
  }
}

/** Whether something was given up on purpose. @param {unknown} error */
export const isAbort = (error) => error instanceof DOMException && error.name === 'AbortError';

/** What a reader is told of a failure: its own words where it has some, and never what the language says of its insides.
    @param {unknown} error @param {string} otherwise */
export function inWords(error, otherwise) {
  if (error instanceof Trouble) return error.message;
  console.error(error);
  return otherwise;
}

export class Look {
  /** @param {LookDocument} document */
  constructor(document) {
    this.document = document;
    /** @type {Map<string | null | undefined, Site>} */
    this.sites = new Map(document.sites.map((site) => [site.name, site]));
    /** @type {Map<string, Promise<Sheet>>} */
    this.sheets = new Map();
    /** @type {LookRequest} */
    this.request = { model: document.model.name, input: document.input, changes: document.changes };
  }

  /** The site of a name that is known to be there. @param {string | null} name */
  at(name) {
    const site = this.sites.get(name);
    if (!site) throw new Trouble({ what: 'Unknown layer', got: String(name) });
    return site;
  }

  // What each source does in its own way.

  /** @param {string} site @param {Head} head @returns {Promise<Float32Array>} */
  fetchMap(site, head) {
    return Promise.reject(new Error(`no map of ${site} ${head}`));
  }

  /** @param {string} site @param {Head} head @param {number} level @returns {Promise<Float32Array>} */
  fetchLevel(site, head, level) {
    return Promise.reject(new Error(`no level ${level} of ${site} ${head}`));
  }

  /** @param {string} site @param {Head} head @param {number} row @returns {Promise<Float32Array>} */
  fetchRow(site, head, row) {
    return Promise.reject(new Error(`no row ${row} of ${site} ${head}`));
  }

  /** @returns {Promise<Map<string, Copy[]>>} */
  thumbnails() {
    return Promise.resolve(new Map());
  }

  /** @param {string} site @param {number} head @param {number} row @param {number} column @returns {Promise<CellNumbers>} */
  cell(site, head, row, column) {
    return Promise.reject(new Error(`no cell ${row}, ${column} of ${site} ${head}`));
  }

  /** @param {string} name @param {Asked} asked @param {AbortSignal} [signal] @returns {Promise<Found>} */
  analysis(name, asked, signal) {
    return Promise.reject(signal?.reason ?? new Error(`no ${name} of ${asked.site}`));
  }

  /** Why an analysis of this look would be refused; empty where it would not, or where that is not known before.
      @param {string} name @param {Asked} asked @returns {Promise<string>} */
  refusal(name, asked) {
    return Promise.resolve(this.sites.has(asked.site) || !asked.site || !name ? '' : 'Unknown layer.');
  }

  /** @returns {Promise<Blob>} */
  page() {
    return Promise.reject(new Error('no page'));
  }

  /** Nobody waits for it any more; what is asked for later is asked for anew. */
  leave() {}

  /** The same look as another object, for those who must ask anew for what they lack. @returns {Look} */
  again() {
    return this;
  }

  /** Rows and columns of the maps of a site. @param {string} name @returns {[number, number]} */
  shape(name) {
    const site = this.at(name);
    return [this.document.axes[site.rows].size, this.document.axes[site.columns].size];
  }

  /** @param {string} name @param {Head} head */
  sheet(name, head) {
    const key = `${name} ${head}`;
    const known = this.sheets.get(key);
    if (known) return known;
    dropOldest(this.sheets, 200);
    const made = this.makeSheet(name, head);
    made.catch(() => this.sheets.delete(key));
    this.sheets.set(key, made);
    return made;
  }

  /** @param {string} name @param {Head} head */
  async makeSheet(name, head) {
    const [rows, columns] = this.shape(name);
    if (rows * columns <= WHOLE) return new Sheet({ rows, columns, exact: await this.fetchMap(name, head) });
    const level = halvings(rows, columns);
    const coarse = head === 'mean' ? null : (await this.thumbnails()).get(name)?.[head];
    return new Sheet({
      rows,
      columns,
      coarse: coarse ? { ...coarse, level } : null,
      fetchLevel: (/** @type {number} */ index) => this.fetchLevel(name, head, index),
      fetchRow: (/** @type {number} */ row) => this.fetchRow(name, head, row),
    });
  }

  /** Cut what came as one piece into the small copies of all heads of all sites. @param {Float32Array} values */
  cutThumbnails(values) {
    /** @type {Map<string, Copy[]>} */
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

/** A map halved until it is a thumbnail. @param {Float32Array} values @param {number} rows @param {number} columns */
export function shrunk(values, rows, columns) {
  /** @type {Copy} */
  let found = { values, rows, columns };
  for (let level = halvings(rows, columns); level > 0; level -= 1) found = halve(found);
  return found;
}
