// The slider of time: which step, frame or recycling is shown. It is there only where a look has more than one moment.

import { button, element, fresh } from './dom.js';
import { moved, momentWords } from './time.js';

/** @param {Store} store */
export function timeline(store) {
  /** @param {number} by */
  const go = (by) => store.set(moved(store.state, by));
  const slider = element('input', {
    id: fresh('time'),
    type: 'range',
    min: 0,
    step: 1,
    onInput: () => go(Number(slider.value) - (store.state.time?.index ?? 0)),
  });
  const label = element('label', { for: slider.id });
  const told = element('output', { for: slider.id });
  const [back, forth] = [button('', '‹', () => go(-1)), button('', '›', () => go(1))];
  const root = element('div', { class: 'timeline', role: 'group', 'aria-label': 'Time' }, label, back, slider, forth, told);
  store.watch(['time'], ({ time }) => {
    root.hidden = !time;
    if (!time) return;
    label.textContent = time.unit;
    slider.max = String(time.count - 1);
    slider.value = String(time.index);
    slider.setAttribute('aria-valuetext', momentWords(time));
    told.textContent = `${time.index} of 0–${time.count - 1}`;
    back.setAttribute('aria-label', `previous ${time.unit}`);
    forth.setAttribute('aria-label', `next ${time.unit}`);
    back.disabled = time.index === 0;
    forth.disabled = time.index === time.count - 1;
  });
  return root;
}
