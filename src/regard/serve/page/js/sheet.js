// A sheet is one map: all its numbers if it is small, else halved copies and single rows that come when asked for.
// Whoever draws asks `level(index)`, and gets the best that is there; `onArrival` tells when there is better.

import { halve, sides } from './bytes.js';

export class Sheet {
  /** exact: all numbers, or null. fetchLevel(index), fetchRow(row) -> promises of Float32Arrays, where it is null.
      @param {SheetFacts} facts */
  constructor({ rows, columns, exact = null, coarse = null, fetchLevel, fetchRow }) {
    this.rows = rows;
    this.columns = columns;
    this.exact = exact;
    this.fetchLevel = fetchLevel ?? (() => Promise.reject(new Error('no levels')));
    this.fetchRow = fetchRow ?? (() => Promise.reject(new Error('no rows')));
    /** @type {Map<number, Copy>} */
    this.levels = new Map(exact ? [[0, { values: exact, rows, columns }]] : []);
    if (coarse) this.levels.set(coarse.level, coarse);
    /** @type {Map<number, Float32Array>} */
    this.kept = new Map(); // rows that came alone
    /** @type {Set<string>} */
    this.asked = new Set();
    this.onArrival = () => {};
  }

  /** The copy that was halved so often, or the nearest coarser one that is there, with its own index; or null.
      @param {number} index @returns {{ index: number, found: Copy } | null} */
  level(index) {
    if (!this.levels.has(index)) {
      const finer = this.exact && this.level(index - 1);
      if (finer) this.levels.set(index, halve(finer.found));
      else
        this.ask(
          `level ${index}`,
          () => this.fetchLevel(index),
          (values) => this.keepLevel(index, values),
        );
    }
    for (let other = index; other < index + 12; other += 1) {
      const found = this.levels.get(other);
      if (found) return { index: other, found };
    }
    return null;
  }

  /** @param {number} index @param {Float32Array} values */
  keepLevel(index, values) {
    const [rows, columns] = sides(this.rows, this.columns, index);
    this.levels.set(index, { values, rows, columns });
  }

  /** One row, exactly; null until it is there. @param {number} index */
  row(index) {
    if (this.exact) return this.exact.subarray(index * this.columns, (index + 1) * this.columns);
    if (!this.kept.has(index)) {
      this.ask(
        `row ${index}`,
        () => this.fetchRow(index),
        (values) => {
          if (this.kept.size > 400) this.kept.clear();
          this.kept.set(index, values);
        },
      );
    }
    return this.kept.get(index) ?? null;
  }

  /** @param {number} row @param {number} column */
  value(row, column) {
    return this.row(row)?.[column] ?? null;
  }

  /** @param {string} name @param {() => Promise<Float32Array>} fetchIt
      @param {(values: Float32Array) => void} keep */
  async ask(name, fetchIt, keep) {
    if (this.asked.has(name)) return;
    this.asked.add(name);
    try {
      keep(await fetchIt());
      this.onArrival();
    } catch {
      setTimeout(() => this.asked.delete(name), 2000); // the next frame that needs it may ask again
    }
  }
}

/** What the first has more than the second, cell by cell; both may come in levels.
    @param {SheetLike} first @param {SheetLike} second */
export function differenceSheet(first, second) {
  /** @param {Float32Array} one @param {Float32Array} two */
  const minus = (one, two) => one.map((value, index) => value - two[index]);
  const { rows, columns } = first;
  if (first.exact && second.exact) return new Sheet({ rows, columns, exact: minus(first.exact, second.exact) });
  /** @param {SheetLike} sheet @param {number} index */
  const whole = async (sheet, index) => {
    for (;;) {
      const level = sheet.level(index);
      if (level?.index === index) return level.found.values;
      await new Promise((resolve) => setTimeout(resolve, 30));
    }
  };
  /** @param {SheetLike} sheet @param {number} index */
  const alone = async (sheet, index) => {
    for (;;) {
      const row = sheet.row(index);
      if (row) return row;
      await new Promise((resolve) => setTimeout(resolve, 30));
    }
  };
  return new Sheet({
    rows,
    columns,
    fetchLevel: async (/** @type {number} */ index) => minus(await whole(first, index), await whole(second, index)),
    fetchRow: async (/** @type {number} */ index) => minus(await alone(first, index), await alone(second, index)),
  });
}
