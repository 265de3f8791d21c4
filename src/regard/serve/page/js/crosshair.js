// Where the token under the pointer stands in every thumbnail: lines on one canvas that lies over all of them.
// (A style change for each would cost more than a frame where there are hundreds.)

import { drawingOn, element } from './dom.js';
import { pictureOfRow, placeInRow } from './onerow.js';

/** crosshair(holder, tiles) -> { root, measure(), draw(hover, look, colours) }; tiles() lists { site, node }.
    @param {HTMLElement} holder @param {() => { site: Site; node: HTMLElement }[]} tiles */
export function crosshair(holder, tiles) {
  const canvas = element('canvas', { class: 'crosshair', 'aria-hidden': 'true' });
  const context = drawingOn(canvas);
  /** @type {{ site: Site; x: number; y: number; width: number; height: number }[]} */
  let places = [];
  let marked = false;

  /** Asked for once after each change of the layout, never while the pointer moves. */
  function measure() {
    const frame = holder.getBoundingClientRect();
    const density = globalThis.devicePixelRatio || 1;
    canvas.width = Math.round(frame.width * density);
    canvas.height = Math.round(frame.height * density);
    context.setTransform(density, 0, 0, density, 0, 0);
    places = tiles().map(({ site, node }) => {
      const box = node.getBoundingClientRect();
      return { site, x: box.left - frame.left, y: box.top - frame.top, width: box.width, height: box.height };
    });
  }

  /** @param {Hover | null} hover @param {LookLike | null} look @param {Colours} colours */
  function draw(hover, look, colours) {
    if (!hover && !marked) return;
    context.clearRect(0, 0, canvas.width, canvas.height);
    marked = hover !== null;
    if (!hover || !look) return;
    /** @param {Spot | null} spot @param {string} axis */
    const part = (spot, axis) => (spot?.axis === axis ? (spot.position + 0.5) / look.document.axes[axis].size : null);
    for (const { site, x, y, width, height } of places) {
      const row = pictureOfRow(look, site);
      const onRow = row && hover.key?.axis === site.columns ? hover.key : null;
      const [down, across] = onRow
        ? placeInRow(row ?? look.document.axes[site.columns], onRow.position)
        : [row ? null : part(hover.query, site.rows), part(hover.key, site.columns)];
      context.fillStyle = row ? colours.key : colours.query;
      if (down !== null) context.fillRect(x, Math.round(y + down * height - 0.5), width, 1);
      context.fillStyle = colours.key;
      if (across !== null) context.fillRect(Math.round(x + across * width - 0.5), y, 1, height);
    }
  }

  new ResizeObserver(measure).observe(holder);
  return { root: canvas, measure, draw };
}
