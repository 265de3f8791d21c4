// A sentence as a row of tokens: one of them can be chosen as the query, and bars above them show where it looks.

import { labelOf } from './axes.js';
import { crossedOut } from './changed.js';
import { button, element, furthest } from './dom.js';
import { hoverToken } from './store.js';

/** @type {Record<string, number>} */
const STRIDES = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity };

/** tokenStrip(store, name, axis, { chooses, bars, share, over, look }) -> { root, update(row, query, key), point(query, key) }
    @param {Store} store @param {string} name @param {Axis} axis @param {Roles} given */
export function tokenStrip(store, name, axis, { chooses, bars, share, over, look }) {
  const out = crossedOut(look, name);
  /** @param {number} index */
  const pick = (index) => store.set(chooses ? { query: index } : { key: index });
  const items = Array.from({ length: axis.size }, (_, index) => {
    const value = element('span', { class: 'strip-value' });
    const bar = element('span', { class: 'strip-bar' });
    const node = button('strip-token', null, () => pick(index), {
      role: 'radio',
      'data-out': out.has(index),
      onPointerenter: () => store.set({ hover: hoverToken(name, index) }),
      onPointerleave: () => store.set({ hover: null }),
    });
    node.replaceChildren(
      ...(bars ? [element('span', { class: 'strip-space', 'aria-hidden': 'true' }, value, bar)] : []),
      element('span', { class: 'strip-text' }, labelOf(axis, index)),
    );
    return { node, bar, value };
  });
  const root = element(
    'div',
    { class: bars ? 'strip' : 'strip flat', role: 'radiogroup', 'aria-label': chooses ? 'Query token' : 'Key token' },
    items.map((item) => item.node),
  );
  let chosen = 0;
  /** @type {number[]} */
  let marked = [];

  root.addEventListener('keydown', (event) => {
    const step = STRIDES[event.key];
    if (!step) return;
    event.preventDefault();
    const next = Math.min(items.length - 1, Math.max(0, chosen + step));
    pick(next);
    items[next].node.focus();
  });

  /** @param {Numbers | null} row @param {number} query @param {number | null} key */
  function update(row, query, key) {
    chosen = chooses ? query : key ?? 0;
    const top = share ? 1 : furthest(row ?? [1]) || 1;
    items.forEach(({ node, bar, value }, index) => {
      const weight = row?.[index] ?? 0;
      if (bars) {
        bar.style.height = `${Math.max(1.5, (100 * Math.abs(weight)) / top)}%`;
        bar.toggleAttribute('data-below', weight < 0);
        value.textContent = share && weight >= 0.1 ? String(Math.round(100 * weight)) : '';
      }
      const told = bars ? `, ${over.word} ${over.write(weight)}` : '';
      node.setAttribute('aria-checked', String(index === chosen));
      node.setAttribute('aria-label', `${labelOf(axis, index)}${out.has(index) ? ', masked' : ''}${told}`);
      node.toggleAttribute('data-query', chooses && index === query);
      node.toggleAttribute('data-key', bars && index === key);
      node.tabIndex = index === chosen ? 0 : -1;
    });
  }

  /** Only what changes: hovering must stay cheap. @param {number[]} positions */
  function point(positions) {
    for (const index of marked) items[index]?.node.removeAttribute('data-hover');
    marked = positions.filter((index) => index !== null && index !== undefined);
    for (const index of marked) items[index]?.node.setAttribute('data-hover', '');
  }

  return { root, update, point };
}
