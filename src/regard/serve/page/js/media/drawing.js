// A small canvas to draw on with a thick brush, white on black: digits as such models learn from, or a mask over a picture.

import { button, drawingOn, element } from '../dom.js';

const PAD_SIDE = 280; // pixels a side on the screen

/** side: pixels a side that are sent; brush: its thickness, of these; steps: how far an arrow key moves it, of these.
    @typedef {{ title: string, side: number, brush: number, steps: number, hint: string, hard: boolean }} PadFacts */

/** @type {PadFacts} */
const INK_PAD = { title: 'Draw', side: 28, brush: 2.6, steps: 1, hint: 'Or use the arrow keys, with Shift to paint.', hard: false };

/** `open(behind)` shows a picture below what is painted, by its address.
    @param {(png: string) => void} onDone @param {PadFacts} facts */
export function drawingPad(onDone, { title, side, brush, steps, hint, hard } = INK_PAD) {
  const zoom = PAD_SIDE / side;
  const canvas = element('canvas', {
    class: 'pad',
    width: PAD_SIDE,
    height: PAD_SIDE,
    tabindex: 0,
    role: 'application',
    'aria-label': 'Drawing canvas. Arrow keys move the brush, Space paints.',
  });
  const context = drawingOn(canvas);
  let [x, y] = [side / 2, side / 2];
  /** @type {[number, number] | null} */
  let last = null;

  const behind = element('img', { class: 'pad-behind', alt: '', hidden: true });

  function clear() {
    context.fillStyle = '#000';
    context.fillRect(0, 0, canvas.width, canvas.height);
  }

  /** @param {[number, number]} from @param {[number, number]} to */
  function stroke(from, to) {
    context.strokeStyle = '#fff';
    context.lineWidth = brush * zoom;
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
    const from = [x * zoom, y * zoom];
    x = Math.min(side, Math.max(0, x + steps * step[0]));
    y = Math.min(side, Math.max(0, y + steps * step[1]));
    if (event.key === ' ' || event.shiftKey) stroke(from, [x * zoom, y * zoom]);
  });

  function done() {
    const small = element('canvas', { width: side, height: side });
    const target = drawingOn(small);
    target.imageSmoothingQuality = 'high';
    target.drawImage(canvas, 0, 0, side, side);
    if (hard) harden(target, side);
    dialog.close();
    onDone(small.toDataURL('image/png'));
  }

  /** @type {HTMLDialogElement} */
  const dialog = element(
    'dialog',
    { class: 'sheet pad-dialog', 'aria-label': title },
    element(
      'header',
      {},
      element('h2', {}, title),
      button('plain', 'Close', () => dialog.close()),
    ),
    element('div', { class: 'pad-over' }, behind, canvas),
    element('p', { class: 'hint' }, hint),
    element('div', { class: 'row end' }, button('plain', 'Clear', clear), button('strong', 'Run', done)),
  );
  clear();
  /** @param {string} [picture] */
  function open(picture) {
    behind.hidden = !picture;
    if (picture) behind.src = picture;
    dialog.showModal();
  }
  return { dialog, open };
}

/** Black or white, and nothing between. @param {CanvasRenderingContext2D} context @param {number} side */
function harden(context, side) {
  const image = context.getImageData(0, 0, side, side);
  for (let index = 0; index < image.data.length; index += 4)
    image.data.fill(image.data[index] >= 128 ? 255 : 0, index, index + 3);
  context.putImageData(image, 0, 0);
}
