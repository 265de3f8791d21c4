// Looks from `regard serve`, by its HTTP API.

import { Look, Trouble } from './source.js';
import { fromRoots } from './bytes.js';

const BASE = 'api/v1';

async function ask(path, options = {}) {
  let answer;
  try {
    answer = await fetch(`${BASE}/${path}`, options);
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Trouble({ what: 'The server does not answer', fix: 'Is `regard serve` still running? Then try again' });
  }
  if (answer.ok) return answer;
  let words = null;
  try {
    words = (await answer.json()).error;
  } catch {
    // not from our API: its status is all that is known
  }
  throw new Trouble(words ?? { what: `The server answered with ${answer.status}` }, answer.status);
}

const send = (path, body, signal) =>
  ask(path, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
    signal,
  }).then((answer) => answer.json());

class ServerLook extends Look {
  constructor(document, request) {
    super(document);
    this.request = request;
    this.answers = new Map();
  }

  /** A look that the server has dropped is posted again: it gets the same id. */
  async get(path, signal) {
    const address = `looks/${encodeURIComponent(this.document.id)}/${path}`;
    try {
      return await ask(address, { signal });
    } catch (error) {
      if (error.status !== 410) throw error;
      await (this.posting ??= send('look', this.request).finally(() => (this.posting = null)));
      return ask(address, { signal, cache: 'reload' }); // browsers keep a 410 and would give it again
    }
  }

  async numbers(path, Kind) {
    return new Kind(await (await this.get(path)).arrayBuffer());
  }

  fetchMap(site, head) {
    return this.numbers(`maps/${encodeURIComponent(site)}?head=${head}`, Float32Array);
  }

  async fetchLevel(site, head, level) {
    return fromRoots(await this.numbers(`maps/${encodeURIComponent(site)}?head=${head}&level=${level}`, Uint8Array));
  }

  fetchRow(site, head, row) {
    return this.numbers(`rows/${encodeURIComponent(site)}?head=${head}&row=${row}`, Float32Array);
  }

  thumbnails() {
    this.small ??= this.numbers('thumbnails', Uint8Array).then((bytes) => this.cutThumbnails(fromRoots(bytes)));
    this.small.catch(() => (this.small = null));
    return this.small;
  }

  /** JSON that was asked for once is kept: the same look gives the same answer. */
  remembered(path) {
    if (!this.answers.has(path)) {
      if (this.answers.size > 500) this.answers.clear();
      const answer = this.get(path).then((found) => found.json());
      answer.catch(() => this.answers.delete(path));
      this.answers.set(path, answer);
    }
    return this.answers.get(path);
  }

  cell(site, head, row, column) {
    return this.remembered(`cell/${encodeURIComponent(site)}?head=${head}&row=${row}&column=${column}`);
  }

  analysis(name, asked = {}) {
    return this.remembered(`analyses/${name}?${new URLSearchParams(asked)}`);
  }

  async page() {
    return (await this.get('export.html')).blob();
  }
}

export class ServerSource {
  constructor() {
    this.can = { write: true, intervene: true, compare: true, exportPage: true };
    this.looks = new Map();
    this.lists = new Map();
  }

  async open(request, signal) {
    const name = JSON.stringify(request);
    if (!this.looks.has(name)) {
      const look = new ServerLook(await send('look', request, signal), request);
      if (this.looks.size > 20) this.looks.delete(this.looks.keys().next().value);
      this.looks.set(name, look);
    }
    return this.looks.get(name);
  }

  async compare(first, second, signal) {
    const found = await send('compare', { first, second }, signal);
    return { look: new ServerLook(found.second, second), sites: found.sites };
  }

  list(name) {
    if (!this.lists.has(name)) {
      const found = ask(name).then((answer) => answer.json());
      found.catch(() => this.lists.delete(name));
      this.lists.set(name, found);
    }
    return this.lists.get(name);
  }

  models() {
    return this.list('models');
  }

  attentions(model) {
    return this.list(`models/${encodeURIComponent(model)}/attentions`);
  }

  figures() {
    return this.list('figures');
  }

  figureAddress(id) {
    return `${BASE}/figures/${encodeURIComponent(id)}.svg`;
  }
}
