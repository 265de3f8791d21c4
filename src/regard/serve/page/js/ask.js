// The input line: the model, and what it is given. A text is looked at as it is written; a picture can be dropped,
// pasted, chosen or drawn.

import { pictureOf, sizesOf, writtenOf } from './axes.js';
import { button, element } from './dom.js';
import { drawingPad } from './drawing.js';
import { modelPicker } from './picker.js';

const PAUSE = 350; // milliseconds without a key, then it is sent
const LARGEST_SIDE = 1024; // a larger picture is made smaller before it is sent

/** A picture as a PNG of a size that the server takes. */
async function readPicture(blob) {
  const bitmap = await createImageBitmap(blob);
  const shrink = Math.min(1, LARGEST_SIDE / Math.max(bitmap.width, bitmap.height));
  const canvas = element('canvas', {
    width: Math.round(bitmap.width * shrink),
    height: Math.round(bitmap.height * shrink),
  });
  canvas.getContext('2d').drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  return canvas.toDataURL('image/png');
}

export function askLine(store, source, begin) {
  let timer = 0;
  const field = element('input', {
    id: 'sentence',
    type: 'text',
    autocomplete: 'off',
    spellcheck: 'false',
    enterkeyhint: 'go',
    maxlength: 4096,
    onBlur: () => finish(),
    onInput: () => {
      clearTimeout(timer);
      timer = setTimeout(sendText, PAUSE);
    },
  });
  const note = element('p', { class: 'hint', role: 'status' });
  const trouble = element('p', { class: 'trouble', role: 'alert', hidden: true });
  const preview = element('img', { class: 'preview', alt: 'The picture that was given' });
  const file = element('input', {
    type: 'file',
    accept: 'image/*',
    class: 'unseen',
    tabindex: -1,
    'aria-label': 'Choose a picture',
    onChange: () => file.files[0] && givePicture(file.files[0]),
  });
  const pad = drawingPad((png) => give(png));
  const pictures = element(
    'div',
    { class: 'ask-picture' },
    preview,
    element('span', { class: 'ask-drop' }, 'Drop or paste a picture here'),
    file,
    button('plain', 'Choose…', () => file.click()),
    button('plain', 'Draw', () => pad.open()),
  );

  /** The input in the form that this model takes. */
  function shaped(patch) {
    const { input } = store.state;
    if (patch.png)
      return input?.kind === 'caption'
        ? { ...input, image: { kind: 'image', png: patch.png } }
        : { kind: 'image', png: patch.png };
    return input?.kind === 'pair' ? { kind: 'pair', source: patch.text } : { kind: 'text', text: patch.text };
  }

  /** Crossed-out places mean nothing in another input; heads and temperature stay. */
  function put(input, draft = 0) {
    store.set({ input, draft, changes: store.state.changes.filter((one) => one.kind !== 'token') });
  }

  let writing = 1;
  let sent = null;

  function sendText() {
    clearTimeout(timer);
    const words = field.value.trim();
    if (!words || (!store.state.error && words === writtenOf(store.state.input ?? {}))) return;
    sent = words;
    put(shaped({ text: words }), writing);
  }

  function finish() {
    writing += 1;
    store.set({ draft: 0 });
  }

  const give = (png) => put(shaped({ png }));

  async function givePicture(blob) {
    try {
      give(await readPicture(blob));
    } catch {
      store.set({ error: 'This file is no picture that the browser can read. PNG, JPEG, GIF and WebP work.' });
    }
  }

  const takesPicture = () => Boolean(store.state.input && pictureOf(store.state.input));
  const pictureIn = (data) => [...(data?.files ?? [])].find((one) => one.type.startsWith('image/'));
  document.addEventListener('paste', (event) => {
    const found = pictureIn(event.clipboardData);
    if (found && takesPicture()) givePicture(found);
  });
  pictures.addEventListener('dragover', (event) => event.preventDefault());
  pictures.addEventListener('drop', (event) => {
    event.preventDefault();
    const found = pictureIn(event.dataTransfer);
    if (found) givePicture(found);
  });

  const look = element('button', { type: 'submit', class: 'strong' }, 'Look');
  const picker = modelPicker(store, source);
  const form = element(
    'form',
    {
      class: 'ask',
      onSubmit: (event) => {
        event.preventDefault();
        if (!store.state.model) return begin(); // the list of models did not come
        sendText();
        writing += 1;
      },
    },
    element('label', { for: 'sentence', class: 'unseen' }, 'Text'),
    element('div', { class: 'ask-line' }, picker.root, field, pictures, look),
    element('div', { class: 'ask-notes' }, note, picker.note),
    trouble,
    pad.dialog,
  );
  store.watch(['input'], ({ input }) => {
    if (!input) return;
    const picture = pictureOf(input);
    pictures.hidden = !picture;
    field.hidden = Boolean(picture);
    look.hidden = Boolean(picture);
    if (picture) preview.src = picture.png;
    else if (writtenOf(input) === sent) sent = null; // from here: who writes is not disturbed
    else field.value = writtenOf(input);
    field.placeholder = input.kind === 'pair' ? 'Write a sentence to translate' : 'Write a text';
  });
  store.watch(['busy', 'error', 'notice', 'look'], ({ busy, error, notice, look: found }) => {
    trouble.hidden = !error && !notice;
    trouble.textContent = error || notice;
    form.toggleAttribute('data-busy', busy);
    document.body.setAttribute('aria-busy', busy);
    note.textContent = busy && !found ? 'Reading the maps…' : sizesOf(found?.document.axes ?? {});
  });
  return form;
}
