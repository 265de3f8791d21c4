// The mathematics of the page, on flat row-major arrays. Pure functions, no DOM.

/** Temperatures go in quarter octaves from 1/4 to 4, so that 1 is the middle and equal steps feel equal.
    @param {number} octaves */
export function temperatureOf(octaves) {
  return Number((2 ** (Math.round(4 * Math.min(2, Math.max(-2, octaves))) / 4)).toFixed(2));
}

/** Weights that sum to 1; a score of null is masked and gets none. @param {Iterable<number | null>} scores */
export function softmax(scores) {
  let top = -Infinity;
  for (const score of scores) if (score !== null && score > top) top = score;
  const powers = Array.from(scores, (score) => (score === null ? 0 : Math.exp(score - top)));
  const total = powers.reduce((sum, power) => sum + power, 0) || 1;
  return { weights: powers.map((power) => power / total), powers, total, top };
}

/** @param {Numbers} first @param {Numbers} second */
export function dot(first, second) {
  let sum = 0;
  for (let index = 0; index < first.length; index += 1) sum += first[index] * second[index];
  return sum;
}

/** One query against all keys: q·k times the scale.
    @param {Numbers} query @param {Numbers} keys @param {number} scale */
export function scoresOf(query, keys, scale) {
  const width = query.length;
  return Array.from({ length: keys.length / width }, (_, place) => {
    let sum = 0;
    for (let index = 0; index < width; index += 1) sum += query[index] * keys[place * width + index];
    return sum * scale;
  });
}

/** Σ w_j v_j @param {Numbers} weights @param {Numbers} values @param {number} width */
export function weightedSum(weights, values, width) {
  const result = new Float64Array(width);
  weights.forEach((weight, place) => {
    for (let index = 0; index < width; index += 1) result[index] += weight * values[place * width + index];
  });
  return result;
}

/** Weights at another temperature: w^(1/T), made to sum to 1 again, is softmax(scores / T). Zeros stay zeros.
    @param {Float32Array} map @param {number} columns @param {number} temperature */
export function warmed(map, columns, temperature) {
  const result = new Float32Array(map.length);
  for (let start = 0; start < map.length; start += columns) {
    let [total, most] = [0, 0];
    for (let index = start; index < start + columns; index += 1) most = Math.max(most, map[index]);
    for (let index = start; index < start + columns; index += 1) {
      result[index] = map[index] > 0 ? (map[index] / most) ** (1 / temperature) : 0;
      total += result[index];
    }
    for (let index = start; index < start + columns; index += 1) result[index] /= total || 1;
  }
  return result;
}

/** @param {Float32Array[]} arrays */
export function mean(arrays) {
  const result = new Float32Array(arrays[0].length);
  for (const array of arrays)
    array.forEach((value, index) => {
      result[index] += value / arrays.length;
    });
  return result;
}

/** @param {Numbers} left @param {Numbers} right @param {number} count */
export function multiply(left, right, count) {
  const result = new Float32Array(count * count);
  for (let row = 0; row < count; row += 1) {
    for (let inner = 0; inner < count; inner += 1) {
      const factor = left[row * count + inner];
      for (let column = 0; column < count; column += 1) {
        result[row * count + column] += factor * right[inner * count + column];
      }
    }
  }
  return result;
}

/** Attention rollout (Abnar and Zuidema, 2020): half the mean map, half the residual, layer after layer.
    @param {Numbers[]} layers @param {number} count */
export function rollout(layers, count) {
  /** @param {Numbers} map */
  const mixed = (map) => Float32Array.from(map, (value, index) => value / 2 + (index % (count + 1) === 0 ? 0.5 : 0));
  return layers.slice(1).reduce((before, map) => multiply(mixed(map), before, count), mixed(layers[0]));
}

/** How far a head looks, on average over its rows; `gap(row, column)` says how far two positions are apart. The first
    `special` ones have no place: they are left out, as in the library, and rows sum to 1 again without them.
    @param {Numbers} map @param {number} count @param {number} special
    @param {(row: number, column: number) => number} gap */
export function distance(map, count, special, gap) {
  let [sum, placed] = [0, 0];
  for (let row = special; row < count; row += 1) {
    let [far, total] = [0, 0];
    for (let column = special; column < count; column += 1) {
      const weight = map[row * count + column];
      total += weight;
      far += weight * gap(row, column);
    }
    if (total <= 0) continue; // it looked only at what has no place
    sum += far / total;
    placed += 1;
  }
  return sum / placed;
}

/** Mean entropy of the rows, in bits: 0 is one position, log2(n) is all alike.
    @param {Numbers} map @param {number} rows */
export function entropy(map, rows) {
  let sum = 0;
  for (const weight of map) if (weight > 0) sum -= weight * Math.log2(weight);
  return sum / rows;
}

/** @param {Float64Array} first @param {Float64Array} second */
function rotate(first, second) {
  const [a, b, c] = [dot(first, first), dot(second, second), dot(first, second)];
  if (Math.abs(c) < 1e-14) return 0;
  const ratio = (b - a) / (2 * c);
  const tangent = Math.sign(ratio || 1) / (Math.abs(ratio) + Math.hypot(1, ratio));
  const cosine = 1 / Math.hypot(1, tangent);
  first.forEach((value, row) => {
    const other = second[row];
    first[row] = cosine * (value - tangent * other);
    second[row] = cosine * (other + tangent * value);
  });
  return Math.abs(c);
}

/** Singular values by one-sided Jacobi rotations: short, and exact enough for a small map.
    @param {Numbers} map @param {number} rows @param {number} columns */
export function singularValues(map, rows, columns) {
  const sides = Array.from({ length: columns }, (__, column) =>
    Float64Array.from({ length: rows }, (_, row) => map[row * columns + column]),
  );
  for (let sweep = 0; sweep < 30; sweep += 1) {
    let most = 0;
    for (let i = 0; i < columns - 1; i += 1) {
      for (let j = i + 1; j < columns; j += 1) most = Math.max(most, rotate(sides[i], sides[j]));
    }
    if (most < 1e-12) break;
  }
  const values = sides.map((side) => Math.sqrt(dot(side, side))).sort((first, second) => second - first);
  return values.slice(0, Math.min(rows, columns));
}

/** exp(entropy of the normalised singular values): how many directions the map really uses.
    @param {number[]} values */
export function effectiveRank(values) {
  const total = values.reduce((sum, value) => sum + value, 0);
  return Math.exp(-values.reduce((sum, value) => sum + (value > 0 ? (value / total) * Math.log(value / total) : 0), 0));
}
