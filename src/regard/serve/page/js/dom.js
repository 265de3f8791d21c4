// Small helpers to build HTML and SVG. No component logic here.

const SVG = 'http://www.w3.org/2000/svg';

function fill(node, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || (value === false && !name.startsWith('aria-'))) continue;
    if (name.startsWith('on')) node.addEventListener(name.slice(2).toLowerCase(), value);
    else if (name === 'style')
      node.style.cssText = value; // by the object model: a strict policy forbids the attribute
    else node.setAttribute(name, value === true && !name.startsWith('aria-') ? '' : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

export const element = (tag, properties = {}, ...children) => fill(document.createElement(tag), properties, children);

export const shape = (tag, properties = {}, ...children) =>
  fill(document.createElementNS(SVG, tag), properties, children);

export const button = (look, text, onClick, properties = {}) =>
  element('button', { type: 'button', class: look, onClick, ...properties }, text);

export const percent = (value, digits = 1) => `${(100 * value).toFixed(digits)}\u202f%`; // a narrow space that does not break

export const signed = (value, digits = 3) => `${value < 0 ? '−' : '+'}${Math.abs(value).toFixed(digits)}`;

export const number = (value, digits = 3) => `${value < 0 ? '−' : ''}${Math.abs(value).toFixed(digits)}`;

export const plural = (count, word) => `${count.toLocaleString('en')} ${word}${count === 1 ? '' : 's'}`;

export const clamp = (value, low, high) => Math.min(high, Math.max(low, value));

/** The place of the largest number; of none, -1. */
export function largest(values) {
  let best = values.length ? 0 : -1;
  for (let index = 1; index < values.length; index += 1) if (values[index] > values[best]) best = index;
  return best;
}

/** The largest magnitude; a map is too long to be spread into Math.max. */
export function furthest(values) {
  let most = 0;
  for (const value of values) most = Math.max(most, Math.abs(value));
  return most;
}

/** Whether weights are of both signs: then they are no shares of anything. What rounding left below 0 does not count. */
export function hasSign(values) {
  let least = 0;
  for (const value of values) least = Math.min(least, value);
  return least < -1e-3 * furthest(values);
}

/** A token in its role, and a pair of them: the two colours mean query and key everywhere. */
export const role = (name, text) => element('mark', { class: name }, text);
export const fromTo = (query, key) => [role('query', query), ' → ', role('key', key)];

/** True when the reader asked for less motion. */
export const calm = () => matchMedia('(prefers-reduced-motion: reduce)').matches;

let counted = 0;
/** A new id, so that several components can stand on one page. */
export const fresh = (name) => `${name}-${(counted += 1)}`;

/** A table that stands behind a plot: built only when somebody opens it. */
export function tableBehind(label, build) {
  const body = element('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': label });
  const root = element('details', { class: 'behind' }, element('summary', {}, label), body);
  const refresh = () => {
    if (!root.open) return;
    const made = build();
    body.replaceChildren(made ? plainTable(made) : '');
  };
  root.addEventListener('toggle', refresh);
  return { root, refresh };
}

function plainTable({ caption, columns, rows }) {
  const body = rows.map(([name, ...cells]) =>
    element(
      'tr',
      {},
      element('th', { scope: 'row' }, name),
      cells.map((cell) => element('td', {}, cell)),
    ),
  );
  return element(
    'table',
    {},
    element('caption', {}, caption),
    element(
      'thead',
      {},
      element(
        'tr',
        {},
        columns.map((name) => element('th', { scope: 'col' }, name)),
      ),
    ),
    element('tbody', {}, body),
  );
}

const STEPS_OF_ARROWS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };

/** Arrows walk through a list of buttons and press them: one tab stop for all. */
export function walkable(root, buttons) {
  root.addEventListener('keydown', (event) => {
    const step = STEPS_OF_ARROWS[event.key];
    const open = buttons().filter((node) => !node.hidden);
    if (!step || !open.includes(event.target)) return;
    event.preventDefault();
    const next = open[(open.indexOf(event.target) + step + open.length) % open.length];
    next.focus();
    next.click();
  });
}

/** A row of mutually exclusive choices; arrows move, as in any radio group. */
export function choices(label, options, onChoose) {
  const buttons = options.map(([value, text, hint]) =>
    button('', text, () => onChoose(value), { role: 'radio', 'data-value': value, title: hint }),
  );
  const root = element('div', { class: 'choices', role: 'radiogroup', 'aria-label': label }, buttons);
  walkable(root, () => buttons);
  const choose = (value) =>
    buttons.forEach((node) => {
      const chosen = node.dataset.value === String(value);
      node.setAttribute('aria-checked', chosen);
      node.tabIndex = chosen ? 0 : -1;
    });
  return { root, choose, buttons };
}
