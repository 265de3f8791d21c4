// Looks from `regard serve`, by its HTTP API.

import { dropOldest, isAbort, Look, Trouble } from './source.js';
import { fromRoots } from './bytes.js';

const BASE = 'api/v1';
const KEPT_FILES = 8; // uploads that can be sent again

/** @param {string} path @param {RequestInit} options */
async function ask(path, options = {}) {
  let answer;
  try {
    answer = await fetch(`${BASE}/${path}`, options);
  } catch (error) {
    if (isAbort(error)) throw error;
    throw new Trouble({ what: 'The server does not respond', fix: 'Check that `regard serve` is running and try again' });
  }
  if (answer.ok) return answer;
  let words = null;
  try {
    words = (await answer.json()).error;
  } catch {
    // not from our API: its status is all that is known
  }
  throw new Trouble(words ?? { what: `The server responded with status ${answer.status}` }, answer.status);
}

/** @param {string} path @param {unknown} body @param {AbortSignal | undefined} signal */
const send = (path, body, signal) =>
  ask(path, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
    signal,
  }).then((answer) => answer.json());

export class ServerLook extends Look {
  /** @param {LookDocument} document @param {LookRequest} request @param {ServerSource} source */
  constructor(document, request, source) {
    super(document);
    this.request = request;
    this.source = source;
    /** @type {Map<string, Promise<any>>} */
    this.answers = new Map();
    /** @type {Promise<unknown> | null} */
    this.posting = null;
    /** @type {Promise<Map<string, Copy[]>> | null} */
    this.small = null;
    this.wanted = new AbortController();
  }

  leave() {
    this.wanted.abort();
    this.wanted = new AbortController();
  }

  again() {
    return new ServerLook(this.document, this.request, this.source);
  }

  /** A look that the server has dropped is posted again: it gets the same id.
      @param {string} path @param {AbortSignal} [left] */
  async get(path, left) {
    const address = `looks/${encodeURIComponent(this.document.id)}/${path}`;
    const signal = AbortSignal.any(left ? [this.wanted.signal, left] : [this.wanted.signal]);
    try {
      return await ask(address, { signal });
    } catch (error) {
      if (!(error instanceof Trouble) || error.status !== 410) throw error;
      await (this.posting ??= this.source.post('look', this.request).finally(() => (this.posting = null)));
      return ask(address, { signal, cache: 'reload' }); // browsers keep a 410 and would give it again
    }
  }

  /** @template T @param {string} path @param {new (raw: ArrayBuffer) => T} Kind */
  async numbers(path, Kind) {
    return new Kind(await (await this.get(path)).arrayBuffer());
  }

  /** @param {string} site @param {Head} head */
  fetchMap(site, head) {
    return this.numbers(`maps/${encodeURIComponent(site)}?head=${head}`, Float32Array);
  }

  /** @param {string} site @param {Head} head @param {number} level */
  async fetchLevel(site, head, level) {
    return fromRoots(await this.numbers(`maps/${encodeURIComponent(site)}?head=${head}&level=${level}`, Uint8Array));
  }

  /** @param {string} site @param {Head} head @param {number} row */
  fetchRow(site, head, row) {
    return this.numbers(`rows/${encodeURIComponent(site)}?head=${head}&row=${row}`, Float32Array);
  }

  thumbnails() {
    const asked = this.small ?? this.numbers('thumbnails', Uint8Array).then((bytes) => this.cutThumbnails(fromRoots(bytes)));
    this.small = asked;
    asked.catch(() => (this.small = null));
    return asked;
  }

  /** JSON that was asked for once is kept: the same look gives the same answer. What was given up is asked for anew.
      @param {string} path @param {AbortSignal} [left] */
  remembered(path, left) {
    const known = this.answers.get(path);
    if (known) return known;
    if (this.answers.size > 500) this.answers.clear();
    const answer = this.get(path, left).then((found) => found.json());
    const forget = () => this.answers.get(path) === answer && this.answers.delete(path);
    left?.addEventListener('abort', forget);
    answer.then(() => left?.removeEventListener('abort', forget), forget);
    this.answers.set(path, answer);
    return answer;
  }

  /** @param {string} site @param {number} head @param {number} row @param {number} column @returns {Promise<CellNumbers>} */
  cell(site, head, row, column) {
    return this.remembered(`cell/${encodeURIComponent(site)}?head=${head}&row=${row}&column=${column}`);
  }

  /** @param {string} name @param {Asked} asked @param {AbortSignal} [left] @returns {Promise<Found>} */
  analysis(name, asked = {}, left) {
    const words = Object.entries(asked).map(([key, value]) => [key, String(value)]);
    return this.remembered(`analyses/${name}?${new URLSearchParams(words)}`, left);
  }

  /** @param {string} name @param {Asked} asked */
  async refusal(name, { site }) {
    const reasons = await this.remembered(`analyses${site ? `?site=${encodeURIComponent(site)}` : ''}`);
    return reasons[name] ? new Trouble(reasons[name]).message : '';
  }

  async page() {
    return (await this.get('export.html')).blob();
  }
}

export class ServerSource {
  constructor() {
    this.can = { write: true, intervene: true, compare: true, exportPage: true, analyse: () => true };
    /** @type {Map<string, ServerLook>} */
    this.looks = new Map();
    /** @type {Map<string, Promise<any>>} */
    this.lists = new Map();
    /** @type {Map<string, Blob>} */
    this.files = new Map(); // what was uploaded, by its id: the server may drop it
  }

  /** The bytes of a file as they are. @param {Blob} blob */
  async upload(blob) {
    const answer = await ask('upload', { method: 'POST', headers: { 'Content-Type': blob.type }, body: blob });
    const { id } = await answer.json();
    dropOldest(this.files, KEPT_FILES);
    this.files.set(id, blob);
    return { id };
  }

  /** An upload that the server has dropped is sent again: it gets the same id.
      @param {string} path @param {unknown} body @param {AbortSignal} [signal] */
  async post(path, body, signal) {
    try {
      return await send(path, body, signal);
    } catch (error) {
      const text = JSON.stringify(body);
      const lost = [...this.files].filter(([id]) => text.includes(`"${id}"`));
      if (!(error instanceof Trouble) || ![404, 410].includes(error.status) || !lost.length) throw error;
      for (const [, blob] of lost) await this.upload(blob);
      return send(path, body, signal);
    }
  }

  /** @param {LookRequest} request @param {AbortSignal | undefined} signal */
  async open(request, signal) {
    const name = JSON.stringify(request);
    const known = this.looks.get(name);
    if (known) return known;
    const look = new ServerLook(await this.post('look', request, signal), request, this);
    dropOldest(this.looks, 20);
    this.looks.set(name, look);
    return look;
  }

  /** @param {LookRequest} first @param {LookRequest} second @param {AbortSignal | undefined} signal */
  async compare(first, second, signal) {
    const found = await this.post('compare', { first, second }, signal);
    const { input } = found.second; // with the words that the first model wrote
    return { look: new ServerLook(found.second, { ...second, input }, this), sites: found.sites, answer: found.answer };
  }

  /** @param {string} name */
  list(name) {
    const known = this.lists.get(name);
    if (known) return known;
    const found = ask(name).then((answer) => answer.json());
    found.catch(() => this.lists.delete(name));
    this.lists.set(name, found);
    return found;
  }

  models() {
    return this.list('models');
  }

  /** @param {string} model */
  attentions(model) {
    return this.list(`models/${encodeURIComponent(model)}/attentions`);
  }

  figures() {
    return this.list('figures');
  }

  /** @param {string} id */
  figureAddress(id) {
    return `${BASE}/figures/${encodeURIComponent(id)}.svg`;
  }
}
