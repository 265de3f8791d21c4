// Numbers as they travel: base64, halves of 16 bits, and weights of 8 bits.

/** @param {string} text */
function bytesOf(text) {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

/** @param {string} text */
export const singles = (text) => new Float32Array(bytesOf(text).buffer);

/** float16, little endian, as float32. @param {string} text */
export function halves(text) {
  const words = new Uint16Array(bytesOf(text).buffer);
  return Float32Array.from(words, (word) => {
    const sign = word & 0x8000 ? -1 : 1;
    const exponent = (word >> 10) & 31;
    const fraction = word & 1023;
    if (exponent === 0) return sign * fraction * 2 ** -24;
    if (exponent === 31) return fraction ? NaN : sign * Infinity;
    return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
  });
}

const WEIGHTS = Float32Array.from({ length: 256 }, (_, byte) => (byte / 255) ** 2);

/** 255 * sqrt(weight), back to the weight. @param {Uint8Array} bytes */
export function fromRoots(bytes) {
  const values = new Float32Array(bytes.length); // a plain loop: `from` with a function takes seconds for millions
  for (let index = 0; index < bytes.length; index += 1) values[index] = WEIGHTS[bytes[index]];
  return values;
}

/** A map at half its size: the value of largest magnitude of each 2 x 2 survives, so a lone strong weight never fades.
    @param {Copy} facts */
export function halve({ values, rows, columns }) {
  const [tall, wide] = [Math.ceil(rows / 2), Math.ceil(columns / 2)];
  const result = new Float32Array(tall * wide);
  for (let row = 0; row < rows; row += 1) {
    for (let column = 0; column < columns; column += 1) {
      const value = values[row * columns + column];
      const place = (row >> 1) * wide + (column >> 1);
      if (Math.abs(value) > Math.abs(result[place])) result[place] = value;
    }
  }
  return { values: result, rows: tall, columns: wide };
}

/** The sides of a map after so many halvings. @param {number} rows @param {number} columns @param {number} level @returns {[number, number]} */
export function sides(rows, columns, level) {
  for (let index = 0; index < level; index += 1) [rows, columns] = [Math.ceil(rows / 2), Math.ceil(columns / 2)];
  return [rows, columns];
}

/** How many halvings until both sides are at most `limit`. @param {number} rows @param {number} columns */
export function halvings(rows, columns, limit = 64) {
  let level = 0;
  while (Math.max(...sides(rows, columns, level)) > limit) level += 1;
  return level;
}
