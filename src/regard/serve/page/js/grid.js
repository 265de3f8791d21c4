// Every head of every site as a thumbnail, grouped by part, and the mean of each site at the end of its row.

import { gridName, groupsOf, headWord, labelOf, moduleOf, sentenceCase } from './axes.js';
import { scales } from './colour.js';
import { crosshair } from './crosshair.js';
import { element, plural, percent } from './dom.js';
import { mean } from './numeric.js';
import { pictureOfRow, rowCopies } from './onerow.js';
import { thumbnail } from './tiles.js';
import { sitesAt } from './time.js';

/** @type {Record<string, number[]>} */
const MOVES = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

/** @param {Store} store */
export function headGrid(store) {
  const holder = element('div', { class: 'grids' });
  const read = element('p', { class: 'readout', 'aria-live': 'polite' });
  const total = element('p', { class: 'hint' });
  /** @type {{ site: Site; head: Head; node: HTMLElement; layer: number; place: number }[]} */
  let tiles = []; // { site, head, node, lines }
  /** @type {Map<string, Copy[]> | null} */
  let copies = null;
  /** @type {LookLike} */
  let shown = /** @type {any} */ (null); // there is one before anything is drawn

  /** @param {string} site @param {Head} head @param {boolean} other */
  function choose(site, head, other) {
    if (other) store.set({ withSite: site, withHead: head, other: null, view: 'compare' });
    else store.set({ site, head });
  }

  /** @param {Site} site @param {Head} head @param {number} layer @param {number} place */
  function tileOf(site, head, layer, place) {
    const node = element(
      'button',
      {
        type: 'button',
        class: head === 'mean' ? 'tile mean' : 'tile',
        'aria-label': sentenceCase(headWord(site, head)),
        style: `--layer: ${layer + 1}; --head: ${place + 1}`,
        onClick: (event) => choose(site.name, head, event.shiftKey),
        onPointerenter: () => {
          describe(site, head);
          shown.sheet(site.name, head).catch(() => {}); // it is there when it is clicked
        },
      },
      element('canvas', { 'aria-hidden': 'true' }),
    );
    tiles.push({ site, head, node, layer, place });
    return node;
  }

  /** @param {{ name: string; sites: Site[] }} facts */
  function gridOf({ name, sites }) {
    const heads = Math.max(...sites.map((site) => site.heads));
    /** @type {Head[]} */
    const columns = [...Array(heads).keys(), ...(heads > 1 ? [/** @type {const} */ ('mean')] : [])];
    /** @param {number} layer @param {number} place @param {string} text */
    const nameAt = (layer, place, text, look = '') =>
      element('span', { class: `grid-name ${look}`, style: `--layer: ${layer}; --head: ${place}` }, text);
    const rows = sites.map((site, layer) =>
      element(
        'div',
        { class: 'grid-site', 'data-site': site.name },
        nameAt(layer + 1, 0, gridName(site, sites, layer)),
        columns
          .filter((head) => head === 'mean' || head < site.heads)
          .map((head) => tileOf(site, head, layer, columns.indexOf(head))),
      ),
    );
    const grid = element(
      'div',
      {
        class: heads + 1 > sites.length && sites.length > 4 ? 'grid can-turn' : 'grid',
        role: 'group',
        'aria-label': `${name || 'all'} heads`,
        style: `--layers: ${sites.length}; --heads: ${columns.length}`,
      },
      element('span', { class: 'grid-corner', 'aria-hidden': 'true' }),
      heads > 1
        ? columns.map((head, place) =>
            nameAt(0, place + 1, head === 'mean' ? 'x̄' : String(head), head === 'mean' ? 'mean' : ''),
          )
        : [],
      rows,
    );
    grid.addEventListener('keydown', (event) => walk(event, grid));
    const ways = [
      element('span', { class: 'when-rows' }, 'layers ↓ heads →'),
      element('span', { class: 'when-columns' }, 'heads ↓ layers →'),
    ];
    return element(
      'div',
      { class: 'grid-group' },
      element('h3', {}, sentenceCase(name || 'all'), element('span', { class: 'ways' }, ways)),
      grid,
    );
  }

  /** @param {KeyboardEvent} event @param {HTMLElement} grid */
  function walk(event, grid) {
    const move = MOVES[event.key];
    const here = tiles.findIndex((tile) => tile.node === event.target);
    if (!move || here < 0) return;
    event.preventDefault();
    const turned = getComputedStyle(grid).getPropertyValue('--turned').trim() === '1'; // CSS decides which way layers run
    const [down, across] = turned ? [move[1], move[0]] : move;
    const { site, place } = tiles[here];
    const names = sitesAt(shown.document.sites, store.state.time).map((one) => one.name);
    const next = names[names.indexOf(site.name) + down] ?? site.name;
    const row = tiles.filter((tile) => tile.site.name === next);
    const target = row[Math.min(row.length - 1, Math.max(0, place + across))];
    choose(next, target.head, false);
    target.node.focus();
  }

  /** @param {Site} site @param {Head} head */
  function describe(site, head) {
    const copy = copyOf(site, head);
    /** @type {(Node | string)[]} */
    const parts = [element('b', {}, sentenceCase(headWord(site, head))), element('br')];
    if (copy && site.kind === 'weights') {
      const sums = new Float32Array(copy.columns);
      copy.values.forEach((value, index) => (sums[index % copy.columns] += value));
      const best = sums.indexOf(Math.max(...sums));
      const axis = shown.document.axes[site.columns];
      const whole = sums.reduce((sum, value) => sum + value, 0) / copy.rows;
      const exact = copy.columns === axis.size && Math.abs(whole - 1) < 0.1; // else it is halved, or its rows are no shares
      const row = pictureOfRow(shown, site);
      const most = row
        ? ` · at most ${percent(Math.max(...copy.values))} on one patch`
        : exact
          ? ` · ${percent(sums[best] / copy.rows, 0)} on ${labelOf(axis, best)}`
          : '';
      parts.push(`${site.mechanism} · ${shown.shape(site.name).join(' × ')}${most}`);
    } else if (copy) parts.push(`${site.mechanism} · influence of each input on each output`);
    read.replaceChildren(...parts);
  }

  /** @param {Site} site @param {Head} head @returns {Copy | undefined} */
  function copyOf(site, head) {
    const own = copies?.get(site.name);
    if (!own) return undefined;
    if (head !== 'mean') return own[head];
    return { ...own[0], values: mean(own.map((copy) => copy.values)) };
  }

  /** @param {State} facts */
  function paintAll({ colours, contrast }) {
    if (!copies) return;
    for (const { site, head, node } of tiles) {
      const copy = copyOf(site, head);
      if (!copy) continue;
      const stretched = site.kind === 'influence' || pictureOfRow(shown, site);
      const { place } = stretched ? scales.influence(Math.max(...copy.values) || 1, contrast) : scales[contrast];
      thumbnail(/** @type {HTMLCanvasElement} */ (node.firstChild), copy, colours.weight, place);
    }
  }

  let drawn = ''; // which sites the grid has, as text
  store.watch(['look', 'time'], (state) => {
    const { look } = state;
    if (!look) return;
    const sites = sitesAt(look.document.sites, state.time);
    const alike = shown && drawn === JSON.stringify(sites);
    shown = look;
    drawn = JSON.stringify(sites);
    if (!alike) {
      tiles = [];
      holder.replaceChildren(...groupsOf(sites).map(gridOf));
      requestAnimationFrame(() => lines.measure());
      const heads = sites.reduce((sum, site) => sum + site.heads, 0);
      total.textContent = `${plural(heads, 'map')}, counted from 0; x̄ is the mean.`;
    }
    Promise.all([look.thumbnails(), rowCopies(look)]).then(
      ([found, rows]) => {
        if (store.state.look !== look) return;
        copies = new Map([...found, ...rows]);
        paintAll(store.state);
        const site = look.sites.get(store.state.site);
        if (site) describe(site, store.state.head);
      },
      () => {},
    );
  });
  store.watch(['contrast', 'colours'], paintAll);

  const lines = crosshair(holder, () => tiles);
  store.watch(['hover', 'look'], ({ hover, look, colours }) => lines.draw(hover, look, colours));

  store.watch(['look', 'time', 'site', 'head', 'withSite', 'withHead', 'view', 'other', 'changes'], (state) => {
    const comparing = state.view === 'compare' && !state.other;
    /** @param {Site} site @param {Head} head */
    const off = (site, head) =>
      state.changes.some((one) => one.kind === 'head' && one.site === moduleOf(site.name) && one.head === head);
    for (const { site, head, node } of tiles) {
      const on = site.name === state.site && head === state.head;
      node.setAttribute('aria-pressed', String(on));
      node.toggleAttribute('data-other', comparing && site.name === state.withSite && head === state.withHead);
      node.toggleAttribute('data-off', off(site, head));
      node.tabIndex = on ? 0 : -1;
      if (on) describe(site, head);
    }
  });

  holder.addEventListener('pointerleave', () => {
    const site = shown?.sites.get(store.state.site);
    if (site) describe(site, store.state.head);
  });
  return element(
    'section',
    { class: 'card heads', 'aria-label': 'Every head' },
    element('header', {}, element('h2', {}, 'Every head'), total),
    element('div', { class: 'grids-frame' }, holder, lines.root),
    read,
  );
}
