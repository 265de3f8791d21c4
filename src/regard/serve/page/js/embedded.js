// A look that stands in the page itself: a stand-alone file, or a notebook. All is computed here, nothing is fetched.

import { gapOf } from './axes.js';
import { halves, singles } from './bytes.js';
import { placesOf } from './media/index.js';
import {
  distance,
  dot,
  effectiveRank,
  mean,
  rollout,
  scoresOf,
  singularValues,
  softmax,
  warmed,
  weightedSum,
} from './numeric.js';
import { Sheet } from './sheet.js';
import { Look, shrunk, Trouble } from './source.js';
import { heatOf } from './working.js';

const WITHOUT = {
  what: 'This needs the model, which is not part of a saved page',
  fix: 'Open the same view with `regard serve`',
};
const ALONE = ['rollout', 'distance', 'spectrum']; // analyses that need the maps alone
const TINY = 1e-6; // what half precision may have rounded to nothing

class EmbeddedLook extends Look {
  /** What it was saved with stays; `own` changes came since. @param {Saved} raw @param {Change[]} [own] */
  constructor(raw, own = []) {
    super({ ...raw.document, changes: [...raw.document.changes, ...own] });
    this.raw = raw;
    this.own = own;
    /** @type {Map<string, Copy[]> | null} */
    this.small = null;
    /** @type {Map<string, Float32Array>} */
    this.decoded = new Map();
  }

  /** Decoded once: base64 takes longer than anything else here.
      @param {string} name @param {() => Float32Array} decode */
  once(name, decode) {
    const found = this.decoded.get(name) ?? decode();
    this.decoded.set(name, found);
    return found;
  }

  /** @param {string} site */
  temperature(site) {
    return heatOf(this.own, site);
  }

  /** @param {string} site @param {Head} head @returns {Float32Array} */
  whole(site, head) {
    const [rows, columns] = this.shape(site);
    if (head === 'mean')
      return mean(Array.from({ length: this.at(site).heads }, (_, each) => this.whole(site, each)));
    const maps = this.once(`map ${site}`, () => halves(this.raw.maps[site]));
    const own = maps.subarray(head * rows * columns, (head + 1) * rows * columns);
    const heat = this.temperature(site);
    return heat === 1 ? own : this.once(`${site} ${head}`, () => warmed(own, columns, heat));
  }

  /** It is all here: no need for levels, however large it is. @param {string} site @param {Head} head */
  async makeSheet(site, head) {
    const [rows, columns] = this.shape(site);
    return new Sheet({ rows, columns, exact: this.whole(site, head) });
  }

  /** @param {string} site @param {Head} head @param {number} row */
  async fetchRow(site, head, row) {
    const [, columns] = this.shape(site);
    return this.whole(site, head).subarray(row * columns, (row + 1) * columns);
  }

  async thumbnails() {
    this.small ??= new Map(
      this.document.sites.map((site) => [
        site.name,
        Array.from({ length: site.heads }, (_, head) => shrunk(this.whole(site.name, head), ...this.shape(site.name))),
      ]),
    );
    return this.small;
  }

  /** The vectors of one head: those of the keys and values may serve several heads that follow each other.
      @param {string} site @param {'queries' | 'keys' | 'values'} kind @param {number} head */
  vectors(site, kind, head) {
    const all = this.once(`${kind} ${site}`, () => singles(this.raw.vectors[site][kind]));
    const { heads } = this.at(site);
    const [rows, columns] = this.shape(site);
    const width = this.once(`queries ${site}`, () => singles(this.raw.vectors[site].queries)).length / (heads * rows);
    if (kind === 'queries') return { width, values: all.subarray(head * rows * width, (head + 1) * rows * width) };
    const keys = this.once(`keys ${site}`, () => singles(this.raw.vectors[site].keys));
    const groups = keys.length / (columns * width);
    const wide = kind === 'keys' ? width : all.length / (groups * columns);
    const group = Math.floor((head * groups) / heads);
    return { width: wide, values: all.subarray(group * columns * wide, (group + 1) * columns * wide) };
  }

  /** @param {string} site @param {number} head @param {number} row @param {number} column */
  async cell(site, head, row, column) {
    const facts = this.at(site);
    const weights = Array.from(await this.fetchRow(site, head, row));
    if (!facts.arithmetic || !this.raw.vectors?.[site])
      return { weights, weight: weights[column], equation: 'the recorded map' };
    const [queries, keys, values] = (/** @type {const} */ (['queries', 'keys', 'values'])).map((kind) => this.vectors(site, kind, head));
    /** @param {{ width: number; values: Float32Array }} facts @param {number} place */
    const part = ({ width, values: all }, place) => all.slice(place * width, (place + 1) * width);
    const [query, key, value] = [part(queries, row), part(keys, column), part(values, column)];
    const scale = facts.scale ?? queries.width ** -0.5;
    const products = scoresOf(query, keys.values, scale);
    const heat = heatOf(this.document.changes, site);
    const plain = softmax(products.map((score) => score / heat)).weights;
    /** @param {number} place */
    const hidden = (place) => weights[place] === 0 && plain[place] > TINY;
    const biases = this.biases(weights, products, heat);
    const product = dot(query, key);
    return {
      query,
      key,
      value,
      product,
      scale,
      bias: biases[column] ?? 0,
      score: product * scale + (biases[column] ?? 0),
      masked: hidden(column),
      scores: products.map((score, place) => (hidden(place) ? null : score + biases[place])),
      weights,
      weight: weights[column],
      mixed: Array.from(weightedSum(weights, values.values, values.width)),
    };
  }

  /** What was added to q·k, up to a constant that softmax does not see: recovered from the map, where it matters.
      @param {number[]} weights @param {number[]} products @param {number} heat */
  biases(weights, products, heat) {
    const plain = softmax(products.map((score, place) => (weights[place] === 0 ? null : score / heat))).weights;
    if (weights.every((weight, place) => Math.abs(weight - plain[place]) < 2e-3)) return weights.map(() => 0);
    return weights.map((weight, place) => (weight > 0 ? heat * Math.log(weight / plain[place]) : 0));
  }

  /** @param {string} name @param {Asked} given @returns {Promise<any>} */
  async analysis(name, { site = '', head = 0 }) {
    /** @param {Site} facts */
    const each = (facts) => Array.from({ length: facts.heads }, (_, index) => index);
    /** @param {Site} facts */
    const axisOfKeys = (facts) => this.document.axes[facts.columns];
    const selves = this.document.sites.filter((one) => one.role === 'self' && one.kind === 'weights');
    const walked = selves.filter((facts) => placesOf(axisOfKeys(facts))); // others have no place and no order
    if (name === 'distance' && walked.length) {
      const sites = walked.map((facts) => {
        const axis = axisOfKeys(facts);
        /** @param {number} one */
        const far = (one) => distance(this.whole(facts.name, one), axis.size, axis.special, gapOf(axis));
        return [facts.name, each(facts).map(far)];
      });
      return {
        name,
        ...this.raw.words[name],
        sites: Object.fromEntries(sites),
        unit: placesOf(axisOfKeys(walked[0])).many,
      };
    }
    if (name === 'spectrum' && Math.max(...this.shape(site)) <= 96) {
      const singular = singularValues(this.whole(site, head), ...this.shape(site));
      const total = singular.reduce((sum, value) => sum + value, 0);
      let sum = 0;
      return {
        name,
        ...this.raw.words[name],
        site,
        head,
        singular,
        mass: singular.map((value) => (sum += value) / total),
        rank: effectiveRank(singular),
      };
    }
    const facts = name === 'rollout' ? selves.find((one) => one.name === site) : undefined;
    if (facts) {
      /** @param {Site} one */
      const grid = (one) => (one.rows.includes('.') ? String(this.document.axes[one.rows].grid) : one.rows); // of windows
      const stack = selves.filter((one) => grid(one) === grid(facts) && one.part === facts.part);
      const layers = stack.slice(0, stack.indexOf(facts) + 1).map((one) => one.name);
      const [count] = this.shape(facts.name);
      const flat = rollout(
        layers.map((one) => this.whole(one, 'mean')),
        count,
      );
      return {
        name,
        ...this.raw.words[name],
        site: facts.name,
        layers,
        map: Array.from({ length: count }, (_, row) => Array.from(flat.slice(row * count, (row + 1) * count))),
      };
    }
    throw new Trouble(WITHOUT);
  }
}

export class EmbeddedSource {
  /** @param {Saved} raw */
  constructor(raw) {
    this.raw = raw;
    this.can = { write: false, intervene: false, compare: false, exportPage: false, analyse: (/** @type {string} */ name) => ALONE.includes(name) };
    /** @type {Map<string, EmbeddedLook>} */
    this.looks = new Map();
  }

  // What needs a server.

  /** @returns {Promise<never>} */
  async compare() {
    throw new Trouble(WITHOUT);
  }

  /** @returns {Promise<ModelRow[]>} */
  async models() {
    return [];
  }

  /** @returns {Promise<string[]>} */
  async attentions() {
    return [];
  }

  /** @returns {Promise<never>} */
  async upload() {
    throw new Trouble(WITHOUT);
  }

  /** Only the temperature can change here: each map is warmed alone, and later layers do not hear of it.
      @param {Partial<LookRequest>} [facts] */
  async open({ changes = [] } = {}) {
    const own = changes.filter((change) => change.kind === 'temperature');
    const name = JSON.stringify(own);
    const look = this.looks.get(name) ?? new EmbeddedLook(this.raw, own);
    this.looks.set(name, look);
    return look;
  }
}
