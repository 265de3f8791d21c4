// The time of a look: a net may run several times over one input, in steps, frames or recyclings. Pure functions.
//
// A document with time has { unit, count } as `time`, and those of its sites that belong to one moment have its number as
// their own `time`. In the state, time is { unit, count, index }, the moment that is shown; null where there is none.

import { clamp } from './dom.js';

/** The time of a look, at a moment as near as can be to the one that was wanted; the last unless told.
    @param {LookDocument} document @param {number | null | undefined} wanted */
export function timeOf(document, wanted) {
  const { time } = document;
  if (!time || !(time.count > 1)) return null;
  const index = clamp(wanted ?? time.count - 1, 0, time.count - 1);
  return { unit: time.unit, count: time.count, index };
}

/** The sites of one moment, and those that belong to none. @param {Site[]} sites @param {Time | null} time */
export const sitesAt = (sites, time) =>
  time ? sites.filter((site) => site.time === undefined || site.time === time.index) : sites;

/** The site of the same module at this moment; a site that belongs to no moment stays.
    @param {Site[]} sites @param {string | null} name @param {Time | null} time */
export function siteAt(sites, name, time) {
  const own = sites.find((site) => site.name === name);
  if (!own || !time || own.time === undefined) return name;
  /** @param {Site} site */
  const module = (site) => site.name.split('@')[0];
  return sites.find((site) => module(site) === module(own) && site.time === time.index)?.name ?? name;
}

/** The state at another moment, as a patch; nothing where there is no time.
    @param {State} state @param {number} by */
export function moved(state, by) {
  const { look, time, site } = state;
  if (!look || !time) return {};
  const next = timeOf(look.document, time.index + by);
  return { time: next, site: siteAt(look.document.sites, site, next) };
}

/** "step 3 of 0 to 7": counted from 0, as everything is. @param {Time} facts */
export const momentWords = ({ unit, index, count }) => `${unit} ${index} of 0 to ${count - 1}`;
