/**
 * `fetch`, by the contract's `http`: a request at a time, whole. A component that mentions `fetch` runs only in topics that grant requests.
 */
import { send } from '#http';
import { timedOut } from './events.js';
import { URL, URLSearchParams } from './url.js';

/** The runner sets these. */
const SET_BY_HOST = /^(host|content-length|transfer-encoding|connection|keep-alive|upgrade|te|trailer|expect|via|proxy-.*)$/;

export class Headers {
  /** Values in order, by their names in lower case. @type {Map<string, string[]>} */
  #values = new Map();

  /** @param {Headers | Iterable<[string, string]> | Record<string, string>} [given] */
  constructor(given = {}) {
    const pairs = typeof given[Symbol.iterator] === 'function' ? given : Object.entries(given);
    for (const [name, value] of pairs) this.append(name, value);
  }

  append(name, value) {
    const key = checkedName(name);
    this.#values.set(key, [...(this.#values.get(key) ?? []), checkedValue(value)]);
  }

  set(name, value) {
    this.#values.set(checkedName(name), [checkedValue(value)]);
  }

  get(name) {
    return this.#values.get(checkedName(name))?.join(', ') ?? null;
  }

  getSetCookie() {
    return [...(this.#values.get('set-cookie') ?? [])];
  }

  has(name) {
    return this.#values.has(checkedName(name));
  }

  delete(name) {
    this.#values.delete(checkedName(name));
  }

  forEach(callback, self) {
    for (const [name, value] of this) callback.call(self, value, name, this);
  }

  /** In the order of names; each cookie by itself, all other values of a name together. */
  *entries() {
    for (const name of [...this.#values.keys()].sort()) {
      if (name === 'set-cookie') for (const value of this.#values.get(name)) yield [name, value];
      else yield [name, this.get(name)];
    }
  }

  *keys() {
    for (const [name] of this) yield name;
  }

  *values() {
    for (const [, value] of this) yield value;
  }

  [Symbol.iterator]() {
    return this.entries();
  }
}

function checkedName(name) {
  if (!/^[!#$%&'*+.^_`|~0-9a-z-]+$/i.test(name)) throw new TypeError(`${JSON.stringify(String(name))} is no name of a header`);
  return String(name).toLowerCase();
}

function checkedValue(value) {
  const text = String(value).replace(/^[\t\n\r ]+|[\t\n\r ]+$/g, '');
  if (/[\0\n\r]/.test(text)) throw new TypeError(`${JSON.stringify(text)} is no value of a header`);
  return text;
}

/** What requests and answers have in common. */
class Body {
  #bytes;
  bodyUsed = false;

  /** @param {unknown} body @param {Headers} headers gets the body's content type, unless it has one */
  constructor(body, headers) {
    const [bytes, type] = written(body);
    this.#bytes = bytes;
    this.headers = headers;
    if (type && !headers.has('content-type')) headers.set('content-type', type);
  }

  #taken() {
    if (this.bodyUsed) throw new TypeError('Body is unusable: Body has already been read');
    this.bodyUsed = this.#bytes !== null;
    return this.#bytes ?? new Uint8Array();
  }

  async bytes() {
    return this.#taken();
  }

  async arrayBuffer() {
    const bytes = this.#taken();
    return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
  }

  async text() {
    return new TextDecoder().decode(this.#taken());
  }

  async json() {
    // Has the author's lines, which are no longer on the stack when the text is there.
    const asked = new Error();
    const text = await this.text();
    try {
      return JSON.parse(text);
    } catch (error) {
      error.stack += asked.stack;
      throw error;
    }
  }

  /** For a copy. @param {Body} from */
  static peek(from) {
    if (from.bodyUsed) throw new TypeError('Body is unusable: Body has already been read');
    return from.#bytes;
  }
}

/** The bytes of a body and their content type. */
function written(body) {
  if (body === undefined || body === null) return [null, null];
  if (body instanceof Uint8Array) return [body.slice(), null];
  if (body instanceof ArrayBuffer) return [new Uint8Array(body.slice()), null];
  if (ArrayBuffer.isView(body)) return [new Uint8Array(body.buffer, body.byteOffset, body.byteLength).slice(), null];
  const type = body instanceof URLSearchParams ? 'application/x-www-form-urlencoded' : 'text/plain';
  return [new TextEncoder().encode(String(body)), `${type};charset=UTF-8`];
}

export class Request extends Body {
  /** @param {string | URL | Request} input @param {RequestInit} [init] */
  constructor(input, init = {}) {
    const from = input instanceof Request ? input : {};
    super(init.body ?? (input instanceof Request ? Body.peek(input) : null), new Headers(init.headers ?? from.headers));
    this.url = from.url ?? checkedUrl(input);
    const method = String(init.method ?? from.method ?? 'GET');
    this.method = /^(get|head|post|put|delete|options)$/i.test(method) ? method.toUpperCase() : method;
    if (Body.peek(this) && /^(GET|HEAD)$/.test(this.method)) throw new TypeError(`a ${this.method} has no body`);
    this.redirect = init.redirect ?? from.redirect ?? 'follow';
    this.signal = init.signal ?? from.signal ?? null;
  }

  clone() {
    return new Request(this);
  }
}

function checkedUrl(input) {
  const url = URL.parse(input);
  if (!url) throw new TypeError(`failed to parse the URL ${JSON.stringify(String(input))}`, { cause: { payload: { tag: 'invalid', val: 'this is no URL' } } });
  if (url.username || url.password) throw new TypeError('a URL of a request has no user and password: use the header `authorization`');
  return url.href;
}

export class Response extends Body {
  /** @param {BodyInit | null} [body] @param {ResponseInit & { url?: string, redirected?: boolean }} [init] */
  constructor(body = null, { status = 200, statusText = '', headers, url = '', redirected = false } = {}) {
    super(body, new Headers(headers));
    Object.assign(this, { status, statusText, url, redirected, type: 'default', ok: status >= 200 && status < 300 });
  }

  static json(value, init = {}) {
    const headers = new Headers(init.headers);
    if (!headers.has('content-type')) headers.set('content-type', 'application/json');
    return new Response(JSON.stringify(value), { ...init, headers });
  }

  static error() {
    return Object.assign(new Response(), { status: 0, ok: false, type: 'error' });
  }

  static redirect(url, status = 302) {
    return new Response(null, { status, headers: { location: new URL(url).href } });
  }

  clone() {
    return new Response(Body.peek(this), this);
  }
}

/** @param {string | URL | Request} input @param {RequestInit} [init] @returns {Promise<Response>} */
export async function fetch(input, init) {
  const request = new Request(input, init);
  request.signal?.throwIfAborted();
  const timeout = request.signal ? Math.max(request.signal.until - Date.now(), 1) : Infinity;
  // The body's own bytes; and no fragment, which is never sent.
  const [url] = request.url.split('#');
  const body = Body.peek(request);
  request.bodyUsed = body !== null;
  try {
    const answer = send({
      method: request.method,
      url,
      headers: [...request.headers].filter(([name]) => !SET_BY_HOST.test(name)),
      body,
      timeout: Number.isFinite(timeout) ? Math.trunc(timeout) : null,
      redirects: request.redirect === 'follow' ? 20 : 0,
    });
    const { status, headers } = answer;
    if (request.redirect === 'error' && [301, 302, 303, 307, 308].includes(status)) throw new TypeError(`fetch failed: ${url} redirects`);
    return new Response(answer.body, { status, headers, url: answer.url, redirected: answer.url !== url });
  } catch (error) {
    throw error.payload ? failed(error, Number.isFinite(timeout)) : error;
  }
}

/** What `fetch` throws: a `TypeError` that names the grant or the limit, and has the runner's own words as its `cause`. */
function failed(cause, hasTimeout) {
  const { tag, val } = cause.payload;
  if (tag === 'timeout' && hasTimeout) return Object.assign(timedOut(), { cause });
  const why = {
    'denied': `not granted: ${val}`,
    'invalid': `the request cannot be sent: ${val}`,
    'timeout': 'no whole answer in time: see `timeout` of `[topics.NAME.http]`',
    'too-large': `the request or its answer is larger than ${val} bytes: see \`request-limit\` and \`response-limit\` of \`[topics.NAME.http]\``,
    'too-many': `one attempt may send no more than ${val} requests: see \`requests\` of \`[topics.NAME.http]\``,
    'unreachable': val,
  };
  return new TypeError(`fetch failed: ${why[tag] ?? tag}`, { cause });
}
