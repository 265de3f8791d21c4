// A sheet is one map: all its numbers if it is small, else halved copies and single rows that come when asked for.
// Whoever draws asks `level(index)`, and gets the best that is there; `onArrival` tells when there is better.

import { halve, sides } from './bytes.js';

export class Sheet {
  /** exact: all numbers, or null. fetchLevel(index), fetchRow(row) -> promises of Float32Arrays, where it is null. */
  constructor({ rows, columns, exact = null, coarse = null, fetchLevel, fetchRow }) {
    Object.assign(this, { rows, columns, exact, fetchLevel, fetchRow });
    this.levels = new Map(exact ? [[0, { values: exact, rows, columns }]] : []);
    if (coarse) this.levels.set(coarse.level, coarse);
    this.kept = new Map(); // rows that came alone
    this.asked = new Set();
    this.onArrival = () => {};
  }

  /** The copy that was halved so often, or the nearest coarser one that is there, with its own index; or null. */
  level(index) {
    if (!this.levels.has(index)) {
      if (this.exact) this.levels.set(index, halve(this.level(index - 1).found));
      else
        this.ask(
          `level ${index}`,
          () => this.fetchLevel(index),
          (values) => this.keepLevel(index, values),
        );
    }
    for (let other = index; other < index + 12; other += 1) {
      if (this.levels.has(other)) return { index: other, found: this.levels.get(other) };
    }
    return null;
  }

  keepLevel(index, values) {
    const [rows, columns] = sides(this.rows, this.columns, index);
    this.levels.set(index, { values, rows, columns });
  }

  /** One row, exactly; null until it is there. */
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

  value(row, column) {
    return this.row(row)?.[column] ?? null;
  }

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

/** What the first has more than the second, cell by cell; both may come in levels. */
export function differenceSheet(first, second) {
  const minus = (one, two) => one.map((value, index) => value - two[index]);
  const { rows, columns } = first;
  if (first.exact && second.exact) return new Sheet({ rows, columns, exact: minus(first.exact, second.exact) });
  const whole = async (sheet, index) => {
    while (sheet.level(index)?.index !== index) await new Promise((resolve) => setTimeout(resolve, 30));
    return sheet.level(index).found.values;
  };
  const alone = async (sheet, index) => {
    while (!sheet.row(index)) await new Promise((resolve) => setTimeout(resolve, 30));
    return sheet.row(index);
  };
  return new Sheet({
    rows,
    columns,
    fetchLevel: async (index) => minus(await whole(first, index), await whole(second, index)),
    fetchRow: async (index) => minus(await alone(first, index), await alone(second, index)),
  });
}
