// What the positions of a map are called, and where they are in a picture.

/** @param {LookLike} look @param {string} name */
export const axisOf = (look, name) => look.document.axes[name];

/** A token that would not be seen gets a sign: a space, the end of a line. @param {string} text */
export const visible = (text) => (text.trim() !== '' ? text : text.includes('\n') ? '⏎' : '␣');

/** One position in words. @param {Axis} axis @param {number} index */
export function labelOf(axis, index) {
  if (axis.labels) return visible(axis.labels[index]);
  if (!axis.grid) return String(index);
  if (index < axis.special) return axis.special === 1 ? '[class]' : `[class ${index}]`;
  const [row, column] = patchOf(axis, index);
  return `${row}, ${column}`;
}

/** @type {WeakMap<Axis, string[]>} */
const kept = new WeakMap();

/** All of them; the same list every time, so that it can be compared. @param {Axis} axis */
export function labelsOf(axis) {
  const known = kept.get(axis);
  if (known) return known;
  const made = Array.from({ length: axis.size }, (_, index) => labelOf(axis, index));
  kept.set(axis, made);
  return made;
}

/** Row and column of a patch in its grid. @param {Gridded} axis @param {number} index */
export function patchOf(axis, index) {
  const place = index - axis.special;
  const wide = axis.grid?.[1] ?? 1;
  return [Math.floor(place / wide), place % wide];
}

/** Longer, for screen readers and sentences: "patch 3, 5". @param {Axis} axis @param {number} index */
export const wordsFor = (axis, index) =>
  axis.grid && index >= axis.special ? `patch ${labelOf(axis, index)}` : labelOf(axis, index);

/** Whether positions lie beside and below each other. @param {Axis} axis */
export const isGrid = (axis) => axis.grid?.length === 2;

/** How far two positions that have a place are apart: in tokens, or in patches of the picture. @param {Axis} axis */
export function gapOf(axis) {
  if (!isGrid(axis)) return (/** @type {number} */ row, /** @type {number} */ column) => Math.abs(row - column);
  return (/** @type {number} */ row, /** @type {number} */ column) => {
    const [a, b] = [patchOf(axis, row), patchOf(axis, column)];
    return Math.hypot(a[0] - b[0], a[1] - b[1]);
  };
}

/** Why two sites have no difference: they must have the same rows and columns, in the same words. Patches of a picture
    are where they are, in whichever layer. Empty where nothing stands against it.
    @param {Placed} first @param {Placed} second */
export function whyApart(first, second) {
  const sides = /** @type {const} */ (['rows', 'columns']);
  for (const side of sides) {
    const [one, two] = [first.look.document.axes[first.site[side]], second.look.document.axes[second.site[side]]];
    const named = one.grid !== null || first.site[side] === second.site[side];
    if (!named || one.kind !== two.kind)
      return `the ${side} are ${first.site[side]} in the first and ${second.site[side]} in the second`;
    if (one.size !== two.size || one.special !== two.special || String(one.grid) !== String(two.grid))
      return `the first has ${one.size} ${side} and the second ${two.size}`;
    const place = labelsOf(one).findIndex((label, index) => label !== labelOf(two, index));
    if (place >= 0) return `${side.slice(0, -1)} ${place} is “${labelOf(one, place)}” in the first and “${labelOf(two, place)}” in the second`;
  }
  return '';
}

/** How many positions there are, axis by axis; layers that have axes of their own count as one kind.
    @param {Record<string, Axis>} axes */
export function sizesOf(axes) {
  const found = new Map();
  for (const [name, { size }] of Object.entries(axes)) {
    const kind = name.includes('.') ? 'patches' : name;
    found.set(kind, [...new Set([...(found.get(kind) ?? []), size])]);
  }
  return [...found].map(([kind, sizes]) => `${kind} ${sizes.join(', ')}`).join(' · ');
}

/** The module of a site: one that ran several times is there once a call, as "name@0", "name@1".
    @param {string} name */
export const moduleOf = (name) => name.split('@')[0];

/** @param {string} name */
const callOf = (name) => name.split('@')[1];

/** The site that an answer means; where a module ran several times, it speaks of the last call.
    @param {LookLike} look @param {string} name */
export const siteCalled = (look, name) =>
  look.sites.get(name) ?? look.document.sites.findLast((site) => moduleOf(site.name) === name);

/** Which of its maps a site is: a call, or a position of the axis that it has a map for each of.
    @param {Site} site @returns {string | undefined} */
function mapOf(site) {
  if (site.over) return `${site.over.kind} ${site.over.label}`;
  const call = callOf(site.name);
  return call === undefined ? undefined : `call ${call}`;
}

/** A site in words: "encoder 2", "decoder 1, cross", "stage 0, layer 1", "layer 0, call 3", "layer 0, sequence yeast".
    @param {Site} site */
export function siteName(site) {
  const numbered = /\d$/.test(site.part) ? `${site.part}, layer` : site.part;
  const part = numbered || (site.layer === null || site.layer === undefined ? site.name : 'layer');
  const layer = site.layer === null || site.layer === undefined ? '' : ` ${site.layer}`;
  const map = mapOf(site);
  return `${part}${layer}${site.role === 'cross' ? ', cross' : ''}${map === undefined ? '' : `, ${map}`}`;
}

/** The name of a row of the grid: the layer; where one module ran several times, also the call, or the call alone.
    @param {Site} site @param {Site[]} sites @param {number} place */
export function gridName(site, sites, place) {
  const call = site.over?.label ?? callOf(site.name);
  if (call === undefined || (site.time !== undefined && !site.over)) return String(site.layer ?? place); // the slider tells the moment
  const alone = sites.every((other) => moduleOf(other.name) === moduleOf(site.name));
  return alone ? call : `${site.layer ?? place}.${call}`;
}

/** @param {Site} site @param {Head} head */
export const headWord = (site, head) =>
  site.heads === 1 ? siteName(site) : `${siteName(site)}, ${head === 'mean' ? 'mean of heads' : `head ${head}`}`;

/** @param {string} text */
export const sentenceCase = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** Groups of sites that belong together, in the order in which they ran: encoder self, decoder self, decoder cross.
    @param {Site[]} sites */
export function groupsOf(sites) {
  const groups = new Map();
  for (const site of sites) {
    const name = [site.part, site.role === 'other' ? site.mechanism : site.role].filter(Boolean).join(' ');
    if (!groups.has(name)) groups.set(name, { name, sites: [] });
    groups.get(name).sites.push(site);
  }
  return [...groups.values()];
}
