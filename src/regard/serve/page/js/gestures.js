// Pointer, wheel, two fingers and keys on a map: each becomes one of a few plain calls.

/** @type {Record<string, number[]>} */
const ARROWS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
/** @type {Record<string, number>} */
const ZOOMS = { '+': 1.5, '=': 1.5, '-': 1 / 1.5, 0: 0 };

/** @param {HTMLCanvasElement} canvas @param {Gestures} given */
export function gestures(canvas, { framed, zoomed, origin, drag, zoomBy, reset, hover, pick, open, step }) {
  /** @type {Map<number, PointerEvent>} */
  const fingers = new Map();
  let moved = 0;

  /** @param {number} x @param {number} y @returns {[number, number]} */
  const inside = (x, y) => {
    const bounds = canvas.getBoundingClientRect();
    const { left, top } = origin();
    return [x - bounds.left - left, y - bounds.top - top];
  };

  /** @param {PointerEvent} event */
  function pinch(event) {
    const before = [...fingers.values()];
    fingers.set(event.pointerId, event);
    const after = [...fingers.values()];
    /** @param {PointerEvent[]} facts */
    const span = ([first, second]) => Math.hypot(first.clientX - second.clientX, first.clientY - second.clientY);
    /** @param {PointerEvent[]} facts @returns {[number, number]} */
    const middle = ([first, second]) => [(first.clientX + second.clientX) / 2, (first.clientY + second.clientY) / 2];
    zoomBy(span(after) / (span(before) || 1), ...inside(...middle(after)));
  }

  canvas.addEventListener('pointerdown', (event) => {
    moved = 0;
    if (framed()) fingers.set(event.pointerId, event);
  });
  canvas.addEventListener('pointermove', (event) => {
    if (fingers.size === 2 && fingers.has(event.pointerId)) return pinch(event);
    if (event.buttons && zoomed()) {
      moved += Math.abs(event.movementX) + Math.abs(event.movementY);
      drag(event.movementX, event.movementY);
    } else hover(event);
  });
  for (const name of ['pointerup', 'pointercancel', 'pointerleave']) {
    canvas.addEventListener(name, (event) => fingers.delete(/** @type {PointerEvent} */ (event).pointerId));
  }
  canvas.addEventListener('pointerleave', () => hover(null));
  canvas.addEventListener('click', (event) => moved < 6 && pick(event));
  canvas.addEventListener(
    'wheel',
    (event) => {
      if (!framed() || !(event.ctrlKey || event.metaKey)) return; // a plain wheel scrolls the page
      event.preventDefault();
      zoomBy(Math.exp(-event.deltaY / 300), ...inside(event.clientX, event.clientY));
    },
    { passive: false },
  );
  canvas.addEventListener('keydown', (event) => {
    if (framed() && event.key in ZOOMS) {
      event.preventDefault();
      if (event.key === '0') reset();
      else zoomBy(ZOOMS[event.key]);
    } else if (event.key === 'Enter') {
      open();
    } else if (event.key in ARROWS) {
      event.preventDefault();
      step(ARROWS[event.key]);
    }
  });
}
