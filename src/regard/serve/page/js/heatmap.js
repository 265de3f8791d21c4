// One map on a canvas: the large view, the comparison and the analyses all use it. It knows nothing of attention.

import { calm, clamp, drawingOn, element } from './dom.js';
import { gestures } from './gestures.js';
import { measure, paint } from './paint.js';
import { Sheet } from './sheet.js';
import { Tiles } from './tiles.js';

const TRAVEL = 180; // milliseconds from one map to the next
const LARGE = 40_000; // weights; above this a map changes at once
const FRAMED_ABOVE = 64; // positions; above this the map is looked at through a frame, in which it can be dragged and zoomed
const FRAME = 560;

/**
 * heatMap({ label, onHover, onPick, onOpen, small }) -> { root, show, move, zoomBy, box }
 * show({ sheet, rows, columns, scale, colours, hover, cursor, patches }): rows and columns are lists of texts;
 * patches.query(index), patches.key(index) -> { image, x, y, width, height } where a picture says more than a text.
 * small: only the cells, no names, no keyboard. @param {MapAsked} facts */
export function heatMap({ label, onHover = () => {}, onPick = () => {}, onOpen = () => {}, small = false }) {
  const canvas = element('canvas', {
    class: 'heatmap',
    role: small ? 'img' : 'application',
    tabindex: small ? undefined : 0,
    'aria-label': label,
    'aria-roledescription': small ? undefined : 'attention map',
  });
  const context = drawingOn(canvas);
  /** @type {ShownMap} */
  let asked = /** @type {any} */ (null); // what show() was last given
  /** @type {Float32Array | null} */
  let values = null; // the weights on the screen, on their way to those of asked.sheet; null where it has no exact ones
  /** @type {Tiles | null} */
  let tiles = null;
  /** @type {MapBox} */
  let box = /** @type {any} */ (null); // as asked, it is there before anything uses it
  let view = { x: 0, y: 0, zoom: 1 };
  let timer = 0;
  let frame = 0;
  let width = 0; // of the canvas, as its observer told: asking the document would make it lay out the page anew
  let density = 1;

  const draw = () => box && tiles && paint(context, { tiles, box, view, small, density, shown: asked });

  function fit() {
    density = globalThis.devicePixelRatio || 1;
    const { rows, columns, colours, patches } = asked;
    frame = !small && Math.max(rows.length, columns.length) > FRAMED_ABOVE ? Math.min(FRAME, width) : 0;
    view = { x: 0, y: 0, zoom: 1 };
    box = measure(context, { width, frame, small, rows, columns, font: colours.font, patches });
    const height = Math.ceil(box.top + box.height + 2);
    canvas.style.height = `${height}px`;
    canvas.classList.toggle('framed', frame > 0);
    canvas.width = Math.round(width * density);
    canvas.height = Math.round(height * density);
    context.setTransform(density, 0, 0, density, 0, 0);
  }

  /** @param {SheetLike} sheet */
  function put(sheet) {
    values = sheet.exact;
    tiles = new Tiles(sheet, asked.colours[asked.scale.ramp], asked.scale.place);
    draw();
  }

  /** @param {Float32Array} from @param {SheetLike} given */
  function travel(from, { rows, columns, exact }) {
    const start = performance.now();
    /** @param {number} time */
    const step = (time) => {
      const part = clamp((time - start) / TRAVEL, 0, 1);
      const eased = 1 - (1 - part) ** 3;
      if (part >= 1) return put(asked.sheet);
      put(
        new Sheet({ rows, columns, exact: (exact ?? from).map((value, index) => from[index] + (value - from[index]) * eased) }),
      );
      timer = requestAnimationFrame(step);
    };
    timer = requestAnimationFrame(step);
  }

  /** @param {ShownMap} next */
  function show(next) {
    const before = asked;
    asked = next;
    if (!width) width = canvas.clientWidth;
    if (!width) return;
    const other = before?.sheet !== next.sheet;
    const alike =
      before?.scale.ramp === next.scale.ramp && before?.columns === next.columns && before?.rows === next.rows;
    if (!tiles || !alike || before.patches !== next.patches) fit();
    if (other) cancelAnimationFrame(timer);
    const from = next.sheet.exact && values?.length === next.sheet.exact.length ? values : null;
    if (tiles && other && alike && from && !calm() && from.length < LARGE) travel(from, next.sheet);
    else if (!tiles || other || before.colours !== next.colours || before.scale !== next.scale) put(next.sheet);
    else draw();
  }

  /** @param {MouseEvent} event */
  function cellAt(event) {
    if (!box) return null;
    const bounds = canvas.getBoundingClientRect();
    const [wide, tall] = [box.size * view.zoom, box.tall * view.zoom];
    /** @param {number} place @param {number} count */
    const inside = (place, count) => (place >= 0 && place < count ? place : null);
    const key = inside(Math.floor((event.clientX - bounds.left - box.left - view.x) / wide), asked.columns.length);
    const query = inside(Math.floor((event.clientY - bounds.top - box.top - view.y) / tall), asked.rows.length);
    return query === null && key === null ? null : { query, key };
  }

  /** @param {number} x @param {number} y */
  function move(x, y, zoom = view.zoom) {
    /** @param {number} space @param {number} cells */
    const least = (space, cells) => Math.min(0, space - cells * zoom);
    view = {
      zoom,
      x: clamp(x, least(box.width, asked.columns.length * box.size), 0),
      y: clamp(y, least(box.height, asked.rows.length * box.tall), 0),
    };
    draw();
  }

  /** @param {number} factor */
  function zoomBy(factor, x = box.width / 2, y = box.height / 2) {
    const zoom = clamp(view.zoom * factor, 1, Math.max(1, 40 / box.size));
    const grown = zoom / view.zoom;
    move(x - (x - view.x) * grown, y - (y - view.y) * grown, zoom);
  }

  /** Keep the cursor in the frame when it walks out of it. @param {{ query: number; key: number }} facts */
  function follow({ query, key }) {
    if (view.zoom === 1) return;
    /** @param {number} offset @param {number} place @param {number} space @param {number} side */
    const inside = (offset, place, space, side) => clamp(offset, -place * side, space - (place + 1) * side);
    const { zoom } = view;
    move(inside(view.x, key, box.width, box.size * zoom), inside(view.y, query, box.height, box.tall * zoom));
  }

  /** @param {number[]} facts */
  function stepBy([down, across]) {
    const { cursor, rows, columns } = asked;
    const next = {
      query: clamp((cursor?.query ?? 0) + down, 0, rows.length - 1),
      key: clamp((cursor?.key ?? 0) + across, 0, columns.length - 1),
    };
    onPick(next);
    if (frame) follow(next);
  }

  gestures(canvas, {
    framed: () => frame > 0,
    zoomed: () => view.zoom > 1,
    origin: () => box,
    drag: (/** @type {number} */ x, /** @type {number} */ y) => move(view.x + x, view.y + y),
    zoomBy,
    reset: () => move(0, 0, 1),
    hover: (/** @type {PointerEvent | null} */ event) => onHover(event && asked ? cellAt(event) : null),
    pick: (/** @type {MouseEvent} */ event) => asked && onPick(cellAt(event)),
    open: onOpen,
    step: stepBy,
  });

  new ResizeObserver(([entry]) => {
    const now = Math.round(entry.contentRect.width);
    if (!asked || width === now) return;
    width = now;
    tiles = null;
    if (width) show(asked);
  }).observe(canvas);
  return { root: canvas, show, move, zoomBy, box: () => box, redraw: draw };
}
