// Figures for export, as SVG text. PNG is the same SVG, rasterised, so both always agree.

import { tickOf } from './matrix.js';
import { Tiles } from './tiles.js';

const escaped = (/** @type {unknown} */ text) => String(text).replace(/[&<>"]/g, (letter) => `&#${letter.charCodeAt(0)};`);

const FONT = 'Helvetica, Arial, sans-serif';
const CELLS = 96; // positions; above, the cells are one embedded picture

/** `note` says what was changed: under the title, where there is something.
    @param {number} width @param {number} height @param {FigureWords} words @param {string[]} body */
function framed(width, height, { title, note, colours }, body) {
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="${FONT}" font-size="12">
<title>${escaped(title)}</title><rect width="100%" height="100%" fill="${colours.surface}"/>
<text x="16" y="24" font-size="14" font-weight="600" fill="${colours.ink}">${escaped(title)}</text>
${note ? `<text x="16" y="42" fill="${colours.soft}">${escaped(note)}</text>` : ''}
${body.join('\n')}
</svg>`;
}

/** The colour scale under a map, with its ticks.
    @param {{ scale: Scale, ramp: Ramp, colours: Colours, left: number, top: number }} place */
function drawnLegend({ scale, ramp, colours, left, top }) {
  const [width, steps] = [200, 40];
  const bar = Array.from({ length: steps }, (_, step) => {
    const x = left + (step * width) / steps;
    return `<rect x="${x}" y="${top}" width="${width / steps + 0.5}" height="9" fill="${ramp.css((step + 0.5) / steps)}"/>`;
  });
  const ticks = scale.ticks.map((tick) => {
    const x = left + width * scale.place(tick);
    return `<text x="${x}" y="${top + 24}" text-anchor="middle" font-size="11" fill="${colours.soft}">${tickOf(scale, tick)}</text>`;
  });
  return [...bar, ...ticks];
}

const longestOf = (/** @type {string[]} */ texts) => Math.max(...texts.map((text) => text.length)) * 6.6;

/** @param {{ sheet: SheetLike, scale: Scale, colours: Colours, left: number, top: number, side: number }} facts */
async function cellsAsImage({ sheet, scale, colours, left, top, side }) {
  const canvas = new OffscreenCanvas(1024, Math.round((1024 * sheet.rows) / sheet.columns));
  const tiles = new Tiles(sheet, colours[scale.ramp], scale.place);
  const size = 1024 / sheet.columns;
  const context = /** @type {OffscreenCanvasRenderingContext2D} */ (canvas.getContext('2d'));
  tiles.paint(context, { x: 0, y: 0, size, tall: size, width: 1024, height: canvas.height });
  const bytes = new Uint8Array(await (await canvas.convertToBlob({ type: 'image/png' })).arrayBuffer());
  let text = '';
  for (const byte of bytes) text += String.fromCharCode(byte);
  const tall = (side * sheet.rows) / sheet.columns;
  return `<image x="${left}" y="${top}" width="${side}" height="${tall}" href="data:image/png;base64,${btoa(text)}"/>`;
}

/** As wide as its words need. @param {FigureWords} words */
const widthOf = ({ title, note }) => 32 + Math.max(title.length * 8, note.length * 6.6);

/** @param {FigureFacts} facts */
export async function mapFigure({ rows, columns, sheet, scale, title, note, colours }) {
  const large = Math.max(rows.length, columns.length) > CELLS;
  const cell = large ? 640 / columns.length : 26;
  const left = large ? 60 : Math.max(60, longestOf(rows) + 24);
  const top = (note ? 18 : 0) + (large ? 60 : Math.max(60, longestOf(columns) * 0.75 + 56));
  const ramp = colours[scale.ramp];
  const body = /** @type {string[]} */ ([]);
  if (large) body.push(await cellsAsImage({ sheet, scale, colours, left, top, side: 640 }));
  else
    rows.forEach((label, row) => {
      columns.forEach((_, column) => {
        const fill = ramp.css(scale.place(sheet.value(row, column) ?? 0));
        body.push(
          `<rect x="${left + column * cell}" y="${top + row * cell}" width="${cell - 1}" height="${cell - 1}" fill="${fill}"/>`,
        );
      });
      body.push(
        `<text x="${left - 8}" y="${top + (row + 0.5) * cell + 4}" text-anchor="end" fill="${colours.soft}">${escaped(label)}</text>`,
      );
    });
  if (!large)
    columns.forEach((label, column) => {
      const x = left + (column + 0.5) * cell;
      body.push(
        `<text transform="translate(${x} ${top - 7}) rotate(-45)" fill="${colours.soft}">${escaped(label)}</text>`,
      );
    });
  const bottom = top + rows.length * cell;
  body.push(...drawnLegend({ scale, ramp, colours, left, top: bottom + 18 }));
  const words = { title, note, colours };
  return framed(Math.max(left + columns.length * cell + 60, widthOf(words)), bottom + 60, words, body);
}

/** @param {FigureFacts} facts */
export function linesFigure({ rows, columns, sheet, title, note, colours }) {
  const [step, top, start, end] = [26, note ? 66 : 48, 170, 470];
  const tallest = Math.max(rows.length, columns.length);
  const y = (/** @type {number} */ index, /** @type {number} */ count) => top + ((tallest - count) / 2 + index + 0.5) * step;
  const body = rows.map(
    (label, row) =>
      `<text x="${start - 10}" y="${y(row, rows.length) + 4}" text-anchor="end" fill="${colours.ink}">${escaped(label)}</text>`,
  );
  columns.forEach((label, column) => {
    body.push(
      `<text x="${end + 10}" y="${y(column, columns.length) + 4}" fill="${colours.ink}">${escaped(label)}</text>`,
    );
    rows.forEach((_, row) => {
      const weight = sheet.value(row, column) ?? 0;
      if (weight < 0.02) return;
      const [from, to] = [y(row, rows.length), y(column, columns.length)];
      body.push(
        `<path d="M${start} ${from}C320 ${from} 320 ${to} ${end} ${to}" fill="none" stroke="${colours.accent}" stroke-width="${(1 + 7 * weight).toFixed(2)}" stroke-opacity="${Math.min(1, 0.1 + 0.8 * weight).toFixed(3)}"/>`,
      );
    });
  });
  const words = { title, note, colours };
  return framed(Math.max(640, widthOf(words)), top + tallest * step + 24, words, body);
}

/** The matrix as CSV; of one that is not here as a whole, the chosen row. @param {Matrix} matrix */
export function matrixText({ rows, columns, sheet, query }) {
  const quoted = (/** @type {string} */ text) => `"${text.replaceAll('"', '""')}"`;
  const places = sheet.exact ? rows.keys() : [query];
  const lines = Array.from(places, (row) =>
    [quoted(rows[row]), ...columns.map((_, column) => sheet.value(row, column)?.toFixed(6) ?? '')].join(','),
  );
  return `${[['"query"', ...columns.map(quoted)].join(','), ...lines].join('\n')}\n`;
}

/** @param {string} text */
export async function rasterise(text, density = 3) {
  const image = new Image();
  image.src = URL.createObjectURL(new Blob([text], { type: 'image/svg+xml' }));
  await image.decode();
  const canvas = new OffscreenCanvas(image.width * density, image.height * density);
  const context = /** @type {OffscreenCanvasRenderingContext2D} */ (canvas.getContext('2d'));
  context.drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(image.src);
  return canvas.convertToBlob({ type: 'image/png' });
}
