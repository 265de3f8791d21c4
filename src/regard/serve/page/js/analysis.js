// The analyses: tabs, the finding, the plot, its equation and what it does not tell. Each is asked for when it is opened.

import { element, fresh, tableBehind, walkable } from './dom.js';
import { FINDINGS } from './findings.js';
import { inForce } from './matrix.js';
import { formOf } from './media/index.js';
import { inWords, isAbort, Trouble } from './source.js';

export const TABS = [
  ['rollout', 'Rollout'],
  ['flow', 'Flow'],
  ['distance', 'Distance'],
  ['spectrum', 'Spectrum'],
  ['occlusion', 'Occlusion'],
  ['gradient', 'Gradient'],
  ['importance', 'Importance'],
  ['lens', 'Lens'],
];

const WHOLE_MAPS = ['rollout', 'gradient', 'spectrum']; // their answers hold a number for each cell, or need all of them
const LONGEST_MAP = 256;
const SETTLED = 80; // milliseconds after a choice: its own numbers are asked for first
const LAYERED = ['rollout', 'flow', 'distance']; // they need self-attention
const ANSWERED = ['occlusion', 'gradient', 'importance']; // they need an answer

/** Rollout and flow follow self-attention: for a site that looks elsewhere, that of what it looks at.
    @param {Force} facts */
function rolledSite({ look, site }) {
  if (site.role === 'self') return site.name;
  const selves = look.document.sites.filter((one) => one.role === 'self');
  return (selves.findLast((one) => one.rows === site.columns) ?? selves.at(-1))?.name ?? site.name;
}

/** The position that a flow starts from: the chosen query, or the key that another kind of site looks at.
    @param {Force} facts @param {string} name */
function start({ look, site, query, key }, name) {
  const { rows } = look.at(name);
  if (site.role === 'self') return { output: query };
  return rows === site.columns ? { output: key } : {};
}

/** Some answer once for each position of one axis (a detector, for each of its queries): the chosen one is asked about,
    where it is a row. @param {Force} facts */
const speakerOf = ({ look }) => formOf(look.document.answer)?.speaker;
/** @param {Force} force */
const asker = (force) => (force.rowAxis.kind === speakerOf(force) ? { output: force.query } : {});

/** Whether there is nothing to ask about: no one answered, and no row is one who could. @param {Force} force */
const silent = (force) =>
  force.rowAxis.kind !== speakerOf(force) && formOf(force.look.document.answer)?.nothing?.(force.look.document.answer);

/** What each wants to know beside the look. @type {Record<string, (force: Force) => Asked>} */
const ASKED = {
  rollout: (/** @type {Force} */ force) => ({ site: rolledSite(force) }),
  flow: (/** @type {Force} */ force) => ({ site: rolledSite(force), ...start(force, rolledSite(force)) }),
  spectrum: (/** @type {Force} */ { site, head }) => ({ site: site.name, head }),
  occlusion: asker,
  gradient: (/** @type {Force} */ force) => ({ site: force.site.name, head: force.head, ...asker(force) }),
  importance: asker,
};

/** @param {Store} store @param {Source} source */
export function analysis(store, source) {
  const finding = element('p', { class: 'prose' });
  const plot = element('div', { class: 'plot-holder' });
  const equation = element('p', { class: 'formula' });
  const limit = element('p', { class: 'limit' });
  const panelId = fresh('analysis');
  /** @type {(Part & { tab: string }) | null} */
  let made = null;
  let turnOf = 0;
  let left = new AbortController(); // of what is asked for now
  let chosen = -Infinity; // when something was chosen
  let seen = false; // nothing is asked for before the panel comes into view
  const table = tableBehind('Table of this plot', () => made?.table);
  const offered = TABS.filter(([name]) => source.can.analyse(name));
  const tabs = offered.map(([name, text]) =>
    element(
      'button',
      {
        type: 'button',
        role: 'tab',
        id: `${panelId}-${name}`,
        'aria-controls': panelId,
        'data-tab': name,
        onClick: () => store.set({ tab: name }),
      },
      text,
    ),
  );
  const list = element('div', { class: 'tabs', role: 'tablist', 'aria-label': 'Analysis' }, tabs);
  walkable(list, () => tabs);
  const panel = element(
    'div',
    { id: panelId, role: 'tabpanel' },
    finding,
    plot,
    table.root,
    element('div', { class: 'equation' }, equation, limit),
  );
  const root = element(
    'section',
    { class: 'card analysis', 'aria-label': 'Analyse' },
    element('header', {}, element('h2', {}, 'Analyse'), list),
    panel,
  );

  const controls = () => /** @type {HTMLElement[]} */ ([...plot.querySelectorAll('canvas, button')]);

  /** @param {Found} found @param {State} state @param {Force} force @param {Asked} asked */
  function present(found, state, force, asked) {
    const wide = Math.min(660, Math.max(280, plot.clientWidth || 620));
    made = { ...FINDINGS[found.name]({ found, force, asked, state, wide, store }), tab: found.name };
    finding.replaceChildren(...made.finding);
    const focus = controls().findIndex((one) => one === document.activeElement);
    plot.replaceChildren(made.plot);
    made.shown?.();
    controls()[focus]?.focus(); // who walks over the picture stays on it
    equation.textContent = found.equation;
    limit.replaceChildren(element('b', {}, 'What it does not show: '), found.limit.replace(/^It does not (show|tell) /, ''));
    table.root.hidden = false;
    table.refresh();
  }

  /** @param {string} words */
  function refuse(words) {
    made = null;
    finding.textContent = words;
    plot.replaceChildren();
    equation.textContent = '';
    limit.replaceChildren();
    table.root.hidden = true;
  }

  /** Something else is chosen: what is still being computed would only keep it waiting. */
  function leave() {
    left.abort();
    left = new AbortController();
    chosen = performance.now();
    turnOf += 1;
  }

  /** @param {State} state */
  async function draw(state) {
    tabs.forEach((tab) => {
      const on = tab.dataset.tab === state.tab;
      tab.setAttribute('aria-selected', String(on));
      tab.tabIndex = on ? 0 : -1;
      if (on) panel.setAttribute('aria-labelledby', tab.id);
    });
    const force = inForce(state);
    if (!force || !seen) return;
    const mine = (turnOf += 1);
    if (LAYERED.includes(state.tab) && !force.look.document.sites.some((site) => site.role === 'self'))
      return refuse('This analysis needs self-attention, which this model does not have.');
    if (ANSWERED.includes(state.tab) && silent(force))
      return refuse('No object was detected. Select a head of the decoder: its rows are queries, and the selected query is analysed.');
    const asked = ASKED[state.tab]?.(force) ?? {}; // after that: it looks for a layer which does so
    if (WHOLE_MAPS.includes(state.tab) && Math.max(...force.look.shape(asked.site ?? force.site.name)) > LONGEST_MAP)
      return refuse(`This analysis computes a full map, for at most ${LONGEST_MAP} positions. Use a shorter input.`);
    panel.setAttribute('aria-busy', 'true');
    if (made && made.tab !== state.tab) refuse('…'); // another's plot must not stand under this name
    try {
      const early = chosen + SETTLED - performance.now();
      if (early > 0) await new Promise((resolve) => setTimeout(resolve, early));
      if (mine !== turnOf) return;
      const reason = LAYERED.includes(state.tab) ? await force.look.refusal(state.tab, asked) : '';
      if (mine !== turnOf) return;
      if (reason) throw new Trouble({ what: reason });
      const found = await force.look.analysis(state.tab, asked, left.signal);
      const now = inForce(store.state);
      if (mine === turnOf && now) present(found, store.state, now, asked);
    } catch (error) {
      if (mine === turnOf && isAbort(error)) return; // the page went on; what follows draws again
      if (mine === turnOf) refuse(inWords(error, 'The result cannot be drawn.'));
    }
    if (mine === turnOf) panel.removeAttribute('aria-busy');
  }

  new IntersectionObserver(
    ([entry], watcher) => {
      if (!entry.isIntersecting) return;
      seen = true;
      watcher.disconnect();
      draw(store.state);
    },
    { rootMargin: '200px' },
  ).observe(root);
  let width = 0;
  new ResizeObserver(() => {
    if (width !== plot.clientWidth && made) draw(store.state);
    width = plot.clientWidth;
  }).observe(plot);
  store.watch(['tab', 'site', 'head', 'query', 'key'], leave, { now: false });
  store.watch(['tab', 'sheet', 'query', 'key', 'contrast', 'colours', 'overlay'], draw);
  store.watch(['hover'], ({ hover }) => made?.point?.(hover));
  return root;
}
