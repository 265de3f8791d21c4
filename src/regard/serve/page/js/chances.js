// Names with chances, as bars; and what became of them when something was changed: before, after, what rose, what fell.

import { visible } from './axes.js';
import { element, percent, signed } from './dom.js';

const FEW_CHANCES = 5; // that are shown, of those that the model told
const STILL = 0.0005; // less than that is no change

/** @param {number} chance */
const bar = (chance, look = '') => element('span', { class: `chance-bar ${look}`, style: `--weight: ${chance}` });

/** @param {Chance[]} list */
export function chances(list) {
  return element(
    'ul',
    { class: 'chances' },
    list
      .slice(0, FEW_CHANCES)
      .map(([name, chance]) =>
        element(
          'li',
          {},
          element('span', { class: 'chance-name' }, visible(name)),
          bar(chance),
          element('span', { class: 'chance-value' }, percent(chance)),
        ),
      ),
  );
}

/** What a list does not tell is not more than the least that it tells, so a change may be known from one side alone: then
    it is what it is at least, or 0 where it could go either way.
    @param {number | undefined} old @param {number | undefined} now @param {{ old: number; now: number }} least */
function changeOf(old, now, least) {
  if (old === undefined) return Math.max(0, (now ?? 0) - least.old);
  return now === undefined ? Math.min(0, least.now - old) : now - old;
}

/** The few likeliest of both lists, in the new order. -> [{ name, old, now, change, known }]
    @param {Chance[]} list @param {Chance[]} earlier */
function movesOf(list, earlier) {
  const [now, old] = [new Map(list), new Map(earlier)];
  const names = new Set([...list.slice(0, FEW_CHANCES), ...earlier.slice(0, FEW_CHANCES)].map(([name]) => name));
  const least = { old: earlier[earlier.length - 1][1], now: list[list.length - 1][1] };
  const rows = [...names].map((name) => {
    const pair = { old: old.get(name), now: now.get(name) };
    return { name, ...pair, change: changeOf(pair.old, pair.now, least), known: old.has(name) && now.has(name) };
  });
  return rows.sort((first, second) => (second.now ?? -1) - (first.now ?? -1));
}

/** @param {number | undefined} chance @param {Chance[]} list @param {string} [look] */
function cell(chance, list, look = '') {
  const told = chance === undefined ? `< ${percent(Math.max(0.001, list[list.length - 1][1]))}` : percent(chance);
  const first = chance !== undefined && chance === list[0][1];
  return element(
    'td',
    {},
    element(
      'span',
      { class: first ? 'chance-cell first' : 'chance-cell' },
      bar(chance ?? 0, look),
      element('span', { class: 'chance-value' }, told),
    ),
  );
}

/** "▲ +12.3": in points. @param {Move} facts */
function moveOf({ change, known }) {
  if (Math.abs(change) < STILL) return element('td', { class: 'chance-move' }, known ? '=' : '');
  const [look, sign, word] = change > 0 ? ['rose', '▲', 'rose by '] : ['fell', '▼', 'fell by '];
  const points = signed(100 * change, 1) + (known ? '' : ' or more');
  const heard = element('span', { class: 'unseen' }, word);
  return element(
    'td',
    { class: `chance-move ${look}`, title: 'in percentage points' },
    element('span', { 'aria-hidden': 'true' }, `${sign} `),
    heard,
    points,
  );
}

/** Two columns, name by name. @param {Chance[]} list @param {Chance[]} earlier */
export function chancesBeside(list, earlier) {
  /** @param {string} text */
  const title = (text) => (text ? element('th', { scope: 'col' }, text) : element('td'));
  const head = ['', 'before', 'with the changes', ''].map(title);
  const rows = movesOf(list, earlier).map((row) =>
    element(
      'tr',
      {},
      element('th', { scope: 'row', class: 'chance-name' }, visible(row.name)),
      cell(row.old, earlier, 'past'),
      cell(row.now, list),
      moveOf(row),
    ),
  );
  return element(
    'table',
    { class: 'chances-pair' },
    element('thead', {}, element('tr', {}, head)),
    element('tbody', {}, rows),
  );
}

/** The two that moved most, in words; nothing where nothing moved.
    @param {Chance[]} list @param {Chance[]} earlier */
export function movers(list, earlier) {
  const moved = movesOf(list, earlier).filter((row) => Math.abs(row.change) >= STILL);
  /** @param {number} sign */
  const most = (sign) => moved.filter((row) => sign * row.change > 0).sort((a, b) => sign * (b.change - a.change))[0];
  /** @param {Move | undefined} row @param {string} word */
  const told = (row, word) => row && `${visible(row.name)} ${word} most, ${signed(100 * row.change, 1)} points`;
  return [told(most(1), 'rose'), told(most(-1), 'fell')].filter(Boolean).join('; ');
}
