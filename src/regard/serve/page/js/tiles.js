// Draws a sheet of any size as canvas tiles: only the visible ones, at the nearest halved resolution that is there.

const SIDE = 256;

export class Tiles {
  /** @param {SheetLike | null} sheet @param {Ramp} ramp @param {(value: number) => number} place */
  constructor(sheet, ramp, place) {
    this.sheet = sheet;
    this.ramp = ramp;
    this.place = place;
    /** @type {Map<string, OffscreenCanvas>} */
    this.cache = new Map();
  }

  /** @param {number} index @param {Copy} found @param {number} down @param {number} across */
  tile(index, found, down, across) {
    const name = `${index} ${down} ${across}`;
    const known = this.cache.get(name);
    if (known) return known;
    if (this.cache.size > 160) this.cache.clear();
    const made = this.shade(found, down * SIDE, across * SIDE);
    this.cache.set(name, made);
    return made;
  }

  /** @param {Copy} facts @param {number} top @param {number} left */
  shade({ values, rows, columns }, top, left) {
    const [tall, wide] = [Math.min(SIDE, rows - top), Math.min(SIDE, columns - left)];
    const image = new ImageData(wide, tall);
    const words = new Uint32Array(image.data.buffer);
    const { words: colours } = this.ramp;
    for (let row = 0; row < tall; row += 1) {
      const start = (top + row) * columns + left;
      for (let column = 0; column < wide; column += 1) {
        const place = this.place(values[start + column]);
        words[row * wide + column] = colours[place <= 0 ? 0 : place >= 1 ? 255 : (place * 255 + 0.5) | 0];
      }
    }
    const canvas = new OffscreenCanvas(wide, tall);
    canvas.getContext('2d')?.putImageData(image, 0, 0);
    return canvas;
  }

  /** Paint cells that are `size` pixels wide and `tall` high, the corner of cell (0, 0) at (x, y), inside width x height.
      @param {CanvasRenderingContext2D | OffscreenCanvasRenderingContext2D} context @param {TileFacts} given */
  paint(context, { x, y, size, tall, width, height, density = 1 }) {
    const least = Math.min(size, tall) * density;
    const best = this.sheet?.level(Math.max(0, Math.floor(Math.log2(1 / least))));
    if (!best) return;
    const { index, found } = best;
    const [wide, high] = [size * 2 ** index, tall * 2 ** index];
    const [right, below] = [SIDE * wide, SIDE * high];
    context.imageSmoothingEnabled = least * 2 ** index < 1;
    for (
      let down = Math.max(0, Math.floor(-y / below));
      down * SIDE < found.rows && y + down * below < height;
      down += 1
    ) {
      for (
        let across = Math.max(0, Math.floor(-x / right));
        across * SIDE < found.columns && x + across * right < width;
        across += 1
      ) {
        const tile = this.tile(index, found, down, across);
        context.drawImage(tile, x + across * right, y + down * below, tile.width * wide, tile.height * high);
      }
    }
  }
}

/** A thumbnail: one pixel per cell (or per halved cell); CSS scales it up without smoothing.
    @param {HTMLCanvasElement} canvas @param {Copy} copy @param {Ramp} ramp
    @param {(value: number) => number} place */
export function thumbnail(canvas, copy, ramp, place) {
  const tile = new Tiles(null, ramp, place).shade(copy, 0, 0);
  if (canvas.width !== tile.width) canvas.width = tile.width;
  if (canvas.height !== tile.height) canvas.height = tile.height;
  canvas.getContext('2d')?.drawImage(tile, 0, 0);
}
