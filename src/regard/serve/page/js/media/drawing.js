// A small canvas to draw on with a thick brush, white on black, as the digits that such models learn from.

import { button, drawingOn, element } from '../dom.js';

const SIDE_OF_PAD = 28; // pixels that are sent
const ZOOM = 10;
const BRUSH = 2.6; // of the sent pixels

/** @param {(png: string) => void} onDone */
export function drawingPad(onDone) {
  const canvas = element('canvas', {
    class: 'pad',
    width: SIDE_OF_PAD * ZOOM,
    height: SIDE_OF_PAD * ZOOM,
    tabindex: 0,
    role: 'application',
    'aria-label': 'Drawing canvas. Arrow keys move the brush, Space paints.',
  });
  const context = drawingOn(canvas);
  let [x, y] = [SIDE_OF_PAD / 2, SIDE_OF_PAD / 2];
  /** @type {[number, number] | null} */
  let last = null;

  function clear() {
    context.fillStyle = '#000';
    context.fillRect(0, 0, canvas.width, canvas.height);
  }

  /** @param {[number, number]} from @param {[number, number]} to */
  function stroke(from, to) {
    context.strokeStyle = '#fff';
    context.lineWidth = BRUSH * ZOOM;
    context.lineCap = 'round';
    context.beginPath();
    context.moveTo(...from);
    context.lineTo(...to);
    context.stroke();
  }

  /** @param {MouseEvent} event @returns {[number, number]} */
  const at = (event) => {
    const bounds = canvas.getBoundingClientRect();
    return [
      ((event.clientX - bounds.left) / bounds.width) * canvas.width,
      ((event.clientY - bounds.top) / bounds.height) * canvas.height,
    ];
  };
  canvas.addEventListener('pointerdown', (event) => {
    canvas.setPointerCapture(event.pointerId);
    last = at(event);
    stroke(last, last);
  });
  canvas.addEventListener('pointermove', (event) => {
    if (!last) return;
    const here = at(event);
    stroke(last, here);
    last = here;
  });
  canvas.addEventListener('pointerup', () => (last = null));
  canvas.addEventListener('keydown', (event) => {
    const step = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1], ' ': [0, 0] }[
      event.key
    ];
    if (!step) return;
    event.preventDefault();
    /** @type {[number, number]} */
    const from = [x * ZOOM, y * ZOOM];
    x = Math.min(SIDE_OF_PAD, Math.max(0, x + step[0]));
    y = Math.min(SIDE_OF_PAD, Math.max(0, y + step[1]));
    if (event.key === ' ' || event.shiftKey) stroke(from, [x * ZOOM, y * ZOOM]);
  });

  function done() {
    const small = element('canvas', { width: SIDE_OF_PAD, height: SIDE_OF_PAD });
    const target = drawingOn(small);
    target.imageSmoothingQuality = 'high';
    target.drawImage(canvas, 0, 0, SIDE_OF_PAD, SIDE_OF_PAD);
    dialog.close();
    onDone(small.toDataURL('image/png'));
  }

  /** @type {HTMLDialogElement} */
  const dialog = element(
    'dialog',
    { class: 'sheet pad-dialog', 'aria-label': 'Draw' },
    element(
      'header',
      {},
      element('h2', {}, 'Draw'),
      button('plain', 'Close', () => dialog.close()),
    ),
    canvas,
    element('p', { class: 'hint' }, 'Or use the arrow keys, with Shift to paint.'),
    element('div', { class: 'row end' }, button('plain', 'Clear', clear), button('strong', 'Run', done)),
  );
  clear();
  return { dialog, open: () => dialog.showModal() };
}
