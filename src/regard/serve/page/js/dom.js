// Small helpers to build HTML and SVG. No component logic here.

const SVG = 'http://www.w3.org/2000/svg';

/** @param {Child} child @returns {(Node | string)[]} */
const nodesOf = (child) => {
  if (Array.isArray(child)) return child.flatMap(nodesOf);
  if (child === null || child === undefined || child === false) return [];
  return [typeof child === 'number' ? String(child) : child];
};

/**
 * @template {HTMLElement | SVGElement} N
 * @param {N} node
 * @param {Properties} properties
 * @param {Child[]} children
 */
function fill(node, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || (value === false && !name.startsWith('aria-'))) continue;
    if (name.startsWith('on'))
      node.addEventListener(name.slice(2).toLowerCase(), /** @type {(event: Event) => void} */ (value));
    else if (name === 'style')
      node.style.cssText = String(value); // by the object model: a strict policy forbids the attribute
    else node.setAttribute(name, value === true && !name.startsWith('aria-') ? '' : String(value));
  }
  node.append(...children.flatMap(nodesOf));
  return node;
}

/** An attribute whose value is no text: a truth, a number. @param {Element} node @param {string} name @param {unknown} value */
export const setAttribute = (node, name, value) => node.setAttribute(name, String(value));

/**
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Properties} [properties]
 * @param {...Child} children
 */
export const element = (tag, properties = {}, ...children) => fill(document.createElement(tag), properties, children);

/**
 * @template {keyof SVGElementTagNameMap} K
 * @param {K} tag
 * @param {Properties} [properties]
 * @param {...Child} children
 */
export const shape = (tag, properties = {}, ...children) =>
  fill(document.createElementNS(SVG, tag), properties, children);

/** The drawing surface of a canvas; every browser that runs modules has one. */
export const drawingOn = (/** @type {HTMLCanvasElement} */ canvas) =>
  /** @type {CanvasRenderingContext2D} */ (canvas.getContext('2d'));

/** @param {string} look @param {Child} text @param {(event: MouseEvent) => unknown} onClick @param {Properties} [properties] */
export const button = (look, text, onClick, properties = {}) =>
  element('button', { type: 'button', class: look, onClick, ...properties }, text);

/** @param {number} value */
export const percent = (value, digits = 1) => `${(100 * value).toFixed(digits)}\u202f%`; // a narrow space that does not break

/** @param {number} value */
export const signed = (value, digits = 3) => `${value < 0 ? '−' : '+'}${Math.abs(value).toFixed(digits)}`;

/** @param {number} value */
export const number = (value, digits = 3) => `${value < 0 ? '−' : ''}${Math.abs(value).toFixed(digits)}`;

/** @param {number} count @param {string} word */
export const plural = (count, word) => `${count.toLocaleString('en')} ${word}${count === 1 ? '' : 's'}`;

/** @param {number} value @param {number} low @param {number} high */
export const clamp = (value, low, high) => Math.min(high, Math.max(low, value));

/** The place of the largest number; of none, -1. @param {ArrayLike<number>} values */
export function largest(values) {
  let best = values.length ? 0 : -1;
  for (let index = 1; index < values.length; index += 1) if (values[index] > values[best]) best = index;
  return best;
}

/** The largest magnitude; a map is too long to be spread into Math.max. @param {Iterable<number>} values */
export function furthest(values) {
  let most = 0;
  for (const value of values) most = Math.max(most, Math.abs(value));
  return most;
}

/** Whether weights are of both signs: then they are no shares of anything. What rounding left below 0 does not count.
    @param {Iterable<number>} values */
export function hasSign(values) {
  let least = 0;
  for (const value of values) least = Math.min(least, value);
  return least < -1e-3 * furthest(values);
}

/** A token in its role, and a pair of them: the two colours mean query and key everywhere.
    @param {string} name @param {Child} text */
export const role = (name, text) => element('mark', { class: name }, text);
/** @param {Child} query @param {Child} key */
export const fromTo = (query, key) => [role('query', query), ' → ', role('key', key)];

/** True when the reader asked for less motion. */
export const calm = () => matchMedia('(prefers-reduced-motion: reduce)').matches;

let counted = 0;
/** A new id, so that several components can stand on one page. @param {string} name */
export const fresh = (name) => `${name}-${(counted += 1)}`;

/** A table that stands behind a plot: built only when somebody opens it.
    @param {string} label @param {() => Table | null | undefined} build */
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

/** @param {Table} facts */
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

/** @type {Record<string, number>} */
const STEPS_OF_ARROWS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };

/** Arrows walk through a list of buttons and press them: one tab stop for all.
    @param {HTMLElement} root @param {() => HTMLElement[]} buttons */
export function walkable(root, buttons) {
  root.addEventListener('keydown', (event) => {
    const step = STEPS_OF_ARROWS[event.key];
    const open = buttons().filter((node) => !node.hidden);
    const here = open.findIndex((node) => node === event.target);
    if (!step || here < 0) return;
    event.preventDefault();
    const next = open[(here + step + open.length) % open.length];
    next.focus();
    next.click();
  });
}

/** A row of mutually exclusive choices; arrows move, as in any radio group.
    @param {string} label @param {[value: string, text: string, hint?: string][]} options
    @param {(value: any) => void} onChoose */
export function choices(label, options, onChoose) {
  const buttons = options.map(([value, text, hint]) =>
    button('', text, () => onChoose(value), { role: 'radio', 'data-value': value, title: hint }),
  );
  const root = element('div', { class: 'choices', role: 'radiogroup', 'aria-label': label }, buttons);
  walkable(root, () => buttons);
  /** @param {string | number} value */
  const choose = (value) =>
    buttons.forEach((node) => {
      const chosen = node.dataset.value === String(value);
      node.setAttribute('aria-checked', String(chosen));
      node.tabIndex = chosen ? 0 : -1;
    });
  return { root, choose, buttons };
}
