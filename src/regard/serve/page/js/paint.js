// How a heat map is measured and painted: cells, gaps, rings around what is chosen, token names.

import { clamp } from './dom.js';

const LARGEST = 33; // pixels; a cell need not be larger to be read
const BAND = 240; // pixels that a map of few rows, or of few columns, may take instead of being a thin strip

/** Where the cells go in a canvas of this width. `frame` is a fixed height to look through, 0 for none.
    @param {CanvasRenderingContext2D} context @param {Measured} given */
export function measure(context, { width, frame, small, rows, columns, font, patches = {} }) {
  context.font = `12.5px ${font}`;
  /** @param {string} text */
  const textWidth = (text) => context.measureText(text).width;
  /** @param {string[]} texts */
  const longest = (texts) => Math.min(width / 4, Math.max(...texts.slice(0, 200).map(textWidth)));
  const margin = small ? 0 : Math.ceil(Math.max(patches.query ? 36 : longest(rows), textWidth('query ↓'))) + (patches.key ? 26 : 12);
  const steep = !small && !frame && (width - margin) / columns.length < 17; // narrow cells: names stand upright
  const slope = steep ? Math.PI / 2 : Math.PI / 4;
  const top = small ? 0 : Math.max(38, patches.key ? 48 : Math.ceil(longest(columns) * Math.sin(slope)) + 18);
  const right = small || patches.key ? 0 : Math.min(44, Math.ceil(textWidth(columns.at(-1) ?? '') * Math.cos(slope)));
  const space = width - margin - right;
  if (frame) {
    const even = Math.min(space / columns.length, (frame - top) / rows.length);
    /** @param {number} count @param {number} other */
    const wider = (count, other) => (3 * count < other ? Math.max(even, Math.min(LARGEST, BAND / count)) : even);
    const size = Math.min(wider(columns.length, rows.length), space / columns.length);
    const tall = wider(rows.length, columns.length);
    return { left: margin, top, slope, size, tall, width: space, height: Math.min(frame - top, tall * rows.length) };
  }
  const size = Math.min(space / columns.length, LARGEST);
  const left = margin + Math.floor((space - size * columns.length) / 2);
  return { left, top, slope, size, tall: size, width: size * columns.length, height: size * rows.length };
}

/** @param {CanvasRenderingContext2D} context @param {Painted} given */
function gaps(context, { box, view, size, tall, rows, columns, colours }) {
  const gap = size > 18 ? 2 : 1;
  context.fillStyle = colours.surface;
  for (let index = 0; index <= columns; index += 1) {
    context.fillRect(view.x + index * size - gap / 2, 0, gap, box.height);
  }
  for (let index = 0; index <= rows; index += 1) {
    context.fillRect(0, view.y + index * tall - gap / 2, box.width, gap);
  }
}

/** @param {CanvasRenderingContext2D} context @param {Painted} given */
function rings(context, { view, size, tall, rows, columns, colours, hover, cursor }) {
  /** @param {number} x @param {number} y @param {number} width @param {number} height @param {string} colour
      @param {number} thickness */
  const outline = (x, y, width, height, colour, thickness) => {
    context.lineWidth = thickness;
    context.strokeStyle = colour;
    context.strokeRect(x, y, width, height);
  };
  /** @param {number} key */
  const x = (key) => view.x + key * size;
  /** @param {number} query */
  const y = (query) => view.y + query * tall;
  const { query = null, key = null } = hover ?? cursor ?? {};
  if (query !== null) outline(view.x, y(query), columns * size, tall, colours.query, 1.5);
  if (key !== null) outline(x(key), view.y, size, rows * tall, colours.key, 1.5);
  const { query: row = null, key: column = null } = cursor ?? {};
  if (row !== null && column !== null) {
    outline(x(column), y(row), size, tall, colours.surface, 5);
    outline(x(column), y(row), size, tall, colours.ink, 2);
  }
}

/** Where a name is written: the end of its row, or the head of its column.
    @param {CanvasRenderingContext2D} context @param {'query' | 'key'} axis @param {number} place
    @param {MapBox} box */
function nameAt(context, axis, place, box) {
  context.textAlign = axis === 'query' ? 'right' : 'left';
  context.textBaseline = 'middle';
  if (axis === 'query') context.translate(box.left - 8, box.top + place);
  else context.translate(box.left + place, box.top - 7);
}

/** A patch of the picture instead of a name.
    @param {CanvasRenderingContext2D} context @param {'query' | 'key'} axis @param {number} side
    @param {Patch} patch @param {boolean} marked @param {Colours} colours */
function patchAt(context, axis, side, patch, marked, colours) {
  const [x, y] = axis === 'query' ? [-side, -side / 2] : [-side / 2, -side];
  context.imageSmoothingEnabled = false;
  context.drawImage(patch.image, patch.x, patch.y, patch.width, patch.height, x, y, side, side);
  context.lineWidth = marked ? 2.5 : 1;
  context.strokeStyle = marked ? colours[axis] : colours.soft;
  context.strokeRect(x, y, side, side);
}

/** @param {CanvasRenderingContext2D} context @param {'query' | 'key'} axis @param {string[]} texts
    @param {Painted} given */
function names(context, axis, texts, { box, view, size: wide, tall, colours, hover, cursor, patches }) {
  const size = axis === 'query' ? tall : wide;
  const step = size >= 13 ? 1 : 2 ** Math.ceil(Math.log2(24 / size)); // as many as fit, at round places
  const height = clamp(size * 0.8, 10.5, 12.5);
  const [offset, limit] = axis === 'query' ? [view.y, box.height] : [view.x, box.width];
  const marked = (hover ?? cursor)?.[axis];
  for (let index = Math.max(0, Math.floor(-offset / size)); index < texts.length; index += 1) {
    const place = offset + (index + 0.5) * size;
    if (place > limit) break;
    if (place < 0 || (index !== marked && index % step)) continue;
    if (index !== marked && step > 1 && Math.abs(index - (marked ?? Infinity)) * size < 14) continue; // the marked name needs its room
    context.save();
    context.font = `${index === marked ? 600 : 400} ${height}px ${colours.font}`;
    context.fillStyle = index === marked ? colours[axis] : colours.soft;
    nameAt(context, axis, place, box);
    const patch = patches[axis]?.(index);
    if (patch) patchAt(context, axis, clamp(size * step - 3, 8, 28), patch, index === marked, colours);
    else {
      if (axis === 'key') context.rotate(patches.key ? -Math.PI / 2 : -box.slope); // beside pictures a name stands upright
      context.fillText(texts[index], 0, 0, axis === 'query' ? box.left - 12 : undefined);
    }
    context.restore();
  }
}

/** Which way queries and keys run, written into the empty corner.
    @param {CanvasRenderingContext2D} context @param {Painted} given */
function corner(context, { box, colours, patches }) {
  const right = box.left - (patches.key ? 22 : 8); // the first patch stands out over its column
  context.font = `600 11px ${colours.font}`;
  context.textAlign = 'right';
  context.textBaseline = 'alphabetic';
  context.fillStyle = colours.key;
  context.fillText('key →', right, box.top - 30);
  context.fillStyle = colours.query;
  context.fillText('query ↓', right, box.top - 14);
}

/** One frame. @param {CanvasRenderingContext2D} context @param {PaintFacts} given */
export function paint(context, { tiles, box, view, small, density, shown }) {
  const [size, tall] = [box.size * view.zoom, box.tall * view.zoom];
  const { rows, columns, colours, hover, cursor, patches = {} } = shown;
  const facts = { box, view, size, tall, colours, hover, cursor, patches, rows: rows.length, columns: columns.length };
  context.clearRect(0, 0, context.canvas.width, context.canvas.height);
  context.save();
  context.translate(box.left, box.top);
  context.beginPath();
  context.rect(-2, -2, box.width + 4, box.height + 4);
  context.clip();
  tiles.paint(context, { x: view.x, y: view.y, size, tall, width: box.width, height: box.height, density });
  if (Math.min(size, tall) >= 9) gaps(context, facts);
  if (!small) rings(context, facts);
  context.restore();
  if (small) return;
  names(context, 'query', rows, facts);
  names(context, 'key', columns, facts);
  corner(context, facts);
}
