// What a look was changed by, in words: beside the map, under what is saved of it, and in the name of its file.

import { labelOf, moduleOf, siteName } from './axes.js';

/** @param {LookLike} look @param {string} name */
const siteWords = (look, name) => {
  const site = look.document.sites.find((one) => one.name === name || one.name.startsWith(`${name}@`));
  return site ? siteName({ ...site, name }) : name;
};

/** @param {LookLike} look @param {Change} change */
function oneChange(look, change) {
  if (change.kind === 'token') {
    const axis = look.document.axes[change.axis];
    return `masked ${axis ? labelOf(axis, change.position) : change.position} (${change.axis} ${change.position})`;
  }
  if (change.kind === 'head') {
    const heard = change.factor ? `times ${change.factor}` : 'off';
    return `head ${change.head} of ${siteWords(look, change.site)} ${heard}`;
  }
  return `temperature ${change.value.toFixed(2)}${change.site === '*' ? '' : ` in ${siteWords(look, change.site)}`}`;
}

/** "Changed: masked dog (source 7); temperature 0.50"; of a look as it is, nothing. @param {LookLike} look */
export function changedWords(look) {
  const { changes } = look.document;
  return changes.length ? `Changed: ${changes.map((change) => oneChange(look, change)).join('; ')}` : '';
}

/** Whether a change is about something that this look has. @param {LookLike} facts @param {Change} change */
export function fitsLook({ document: { axes, sites } }, change) {
  if (change.kind === 'token') return change.position < (axes[change.axis]?.size ?? 0);
  const own = sites.filter((site) => moduleOf(site.name) === change.site);
  if (change.kind === 'head') return own.some((site) => change.head < site.heads);
  return change.site === '*' || own.length > 0;
}

const LONGEST_NAME = 60;

/** The same as a part of the name of a file. @param {LookLike} look */
export const changedName = (look) =>
  changedWords(look)
    .replace(/[^\p{L}\p{N}.]+/gu, '-')
    .replace(/^-|[-.]+$/g, '')
    .toLowerCase()
    .slice(0, LONGEST_NAME);

/** Which positions of an axis nobody looks at any more. @param {LookLike} look @param {string} name */
export const crossedOut = (look, name) =>
  new Set(
    look.document.changes.flatMap((change) =>
      change.kind === 'token' && change.axis === name ? [change.position] : [],
    ),
  );
