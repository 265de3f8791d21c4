// What each analysis shows: a sentence of finding, a plot and a table, from what the API answered.

import { labelOf, moduleOf, siteCalled, siteName, visible } from './axes.js';
import { inkOn, scales } from './colour.js';
import { element, largest, percent } from './dom.js';
import { askedAbout, flowPart, inNats, insteadOf, mapPart, numbered, occlusionPart } from './mapped.js';
import { dots } from './plots.js';
import { Trouble } from './source.js';
import { spectrumPart } from './spectrum.js';

/** A site in words; a block by its layer; a place that is neither, by its own name.
    @param {LookLike} look @param {string} name */
function placeName(look, name) {
  const site = siteCalled(look, name);
  if (site) return siteName({ ...site, name }); // of a module, without a call
  const inside = look.document.sites.find((one) => one.name.startsWith(`${name}.`));
  const block = inside && { ...inside, name: moduleOf(inside.name), role: 'self' }; // it is more than its cross
  return block ? siteName(block) : name.replaceAll('.', ' ');
}

/** Places in words, in the order in which they ran; one that ran several times is numbered.
    @param {LookLike} look @param {string[]} names */
function placeNames(look, names) {
  return names.map((name, index) => {
    const several = names.indexOf(name) !== names.lastIndexOf(name);
    const call = names.slice(0, index).filter((one) => one === name).length;
    return several ? `${placeName(look, name)}, call ${call}` : placeName(look, name);
  });
}

/** As many layers as the answer went through; a page that was saved earlier does not say. @param {PartFacts} facts */
function pathWords(facts) {
  const { layers, site } = facts.found;
  const last = facts.force.site.role === 'self' ? 'this layer' : placeName(facts.force.look, site);
  if (layers?.length === 1) return `${insteadOf(facts)}Attention of ${last} only, `;
  const through = layers ? `${layers.length} layers` : 'all layers';
  return `${insteadOf(facts)}Attention propagated through ${through} up to ${last}, `;
}

/** The sites that have a number for one of their heads at least, and these numbers.
    @param {Record<string, (number | null)[]>} sites @returns {[string[], (number | null)[][]]} */
function measured(sites) {
  const some = Object.entries(sites).filter(([, group]) => group?.some((value) => Number.isFinite(value)));
  if (!some.length) throw new Trouble({ what: 'No head has a value for this analysis' });
  return [some.map(([name]) => name), some.map(([, group]) => group)];
}

/** @param {PartFacts & { yName: string; write: (value: number) => string; intro: (Node | string)[] }} facts */
function headsPart({ found, force, wide, store, yName, write, intro }) {
  const counts = Number.isFinite;
  const [names, groups] = measured(found.sites);
  const titles = names.map((name) => placeName(force.look, name));
  const flat = groups
    .flatMap((group, place) => group.map((value, head) => ({ place, head, value })))
    .filter(({ value }) => counts(value));
  const best = flat[largest(flat.map((one) => Math.abs(one.value ?? 0)))];
  const some = Object.keys(found.sites).length > names.length || groups.flat().length > flat.length;
  return {
    finding: [
      ...intro,
      some ? 'Heads without a value are omitted. ' : '',
      `Largest: ${titles[best.place]}, head ${best.head}: ${write(best.value ?? 0)}. Click a dot to open its map.`,
    ],
    plot: dots({
      wide,
      label: `${found.name} of every head, by layer`,
      groups,
      names: titles.map((title) =>
        title.replace('encoder ', 'enc ').replace('decoder ', 'dec ').replace(', cross', ' ×').replace('layer ', ''),
      ),
      xName: '',
      yName,
      chosen: { place: names.findIndex((name) => moduleOf(name) === moduleOf(force.site.name)), head: force.head },
      onChoose: (/** @type {number} */ place, /** @type {Head} */ head) => store.set({ site: siteCalled(force.look, names[place])?.name ?? null, head }),
    }),
    table: {
      caption: found.name,
      columns: ['layer', ...numbered(Math.max(...groups.map((group) => group.length))).map((head) => `head ${head}`)],
      rows: groups.map((group, place) => [titles[place], ...group.map((value) => (counts(value) ? Number(value).toPrecision(3) : '–'))]),
    },
  };
}

/** Distances are of layers that look at their own positions by shares. @param {PartFacts} facts */
function leftOut({ found, force }) {
  const own = force.look.document.sites.filter((site) => site.role === 'self');
  const missing = own.filter((site) => !(site.name in found.sites));
  return missing.length ? `Omitted, because their rows do not sum to 1: ${missing.map(siteName).join('; ')}. ` : '';
}

/** @param {PartFacts} facts */
function lensPart({ found, force, state }) {
  const count = found.layers[0].tokens.length;
  const first = found.layers[0].first ?? 0; // of a long text only the end is told
  const named = force.look.document.axes[found.axis];
  const axis = named?.size === first + count ? named : null;
  const ramp = state.colours.weight;
  const places = placeNames(force.look, found.layers.map((layer) => layer.site));
  /** @param {number} index */
  const name = (index) =>
    axis ? labelOf(axis, first + index) : count === 1 ? 'answer' : String(first + index);
  /** @param {Chance[]} choices */
  const cell = (choices) => {
    const [token, chance] = choices[0];
    const ground = ramp.css(scales.root.place(chance));
    return element(
      'td',
      {
        title: choices.map(([word, sure]) => `${visible(word)} ${percent(sure)}`).join(', '),
        style: `background: ${ground}; color: ${inkOn(ground)}`,
      },
      visible(token),
    );
  };
  const head = element(
    'tr',
    {},
    element('th', { scope: 'col' }, 'after'),
    Array.from({ length: count }, (_, index) => element('th', { scope: 'col' }, name(index))),
  );
  const rows = found.layers.map((layer, index) =>
    element(
      'tr',
      {},
      element('th', { scope: 'row' }, places[index]),
      layer.tokens.map(cell),
    ),
  );
  const plot = element(
    'div',
    { class: 'lens', tabindex: 0, role: 'region', 'aria-label': 'Logit lens' },
    element('table', {}, element('thead', {}, head), element('tbody', {}, rows)),
  );
  const table = {
    caption: 'Most likely token after each layer',
    columns: ['after', ...Array.from({ length: count }, (_, index) => name(index))],
    rows: found.layers.map((layer, index) => [
      places[index],
      ...layer.tokens.map((/** @type {Chance[]} */ [[token, chance]]) => `${token} ${percent(chance)}`),
    ]),
  };
  return { finding: ['The prediction of the output head after each layer; a stronger colour means a higher probability.'], plot, table };
}

/** @type {Record<string, (facts: PartFacts) => Part>} */
export const FINDINGS = {
  rollout: (/** @type {PartFacts} */ facts) =>
    mapPart({
      ...facts,
      before: [`${pathWords(facts)}with the residual connection weighted one half. `],
      after: ' receives most from ',
    }),
  flow: flowPart,
  distance: (/** @type {PartFacts} */ facts) =>
    headsPart({
      ...facts,
      yName: `distance in ${facts.found.unit}`,
      write: (/** @type {number} */ value) => `${value.toFixed(2)} ${facts.found.unit}`,
      intro: [`Mean attention distance of each head. ${leftOut(facts)}`],
    }),
  spectrum: spectrumPart,
  occlusion: occlusionPart,
  gradient: (/** @type {PartFacts} */ facts) =>
    mapPart({
      ...facts,
      signedValues: true,
      before: ['Each weight times the gradient of ', ...askedAbout(facts), ' with respect to it. For the query '],
      after: ' the largest value is at ',
    }),
  importance: (/** @type {PartFacts} */ facts) =>
    headsPart({
      ...facts,
      yName: 'decrease in nats',
      write: inNats,
      intro: ['Decrease in the log-probability of ', ...askedAbout(facts), ' when a head is switched off. '],
    }),
  lens: lensPart,
};
