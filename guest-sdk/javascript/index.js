/**
 * What a handler is written with: `types/index.d.ts` says what each of these is. In a component the calls go to the runner
 * (`host.js`), under `gristmill dev --native` too (`native/host.js`), anywhere else to a fake (`testing.js`).
 */
import * as host from '#host';

/** @import { Fields, HandlerFunction, Level, Links, NewJob, Result, WireJob, WireNewJob } from 'gristmill-guest' */
/** @typedef {typeof import('gristmill-guest')} Declared */

const utf8 = new TextEncoder();
const strict = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

export class Failure extends Error {
  /** @param {string} code @param {string} message @param {{ context?: Result }} [options] */
  constructor(code, message, { context } = {}) {
    super(message);
    this.name = new.target.name;
    this.code = code;
    this.context = payload(context);
  }

  /** @returns {never} */
  text() {
    throw this;
  }

  /** @returns {never} */
  json() {
    throw this;
  }
}

export class Retry extends Failure {
  /** @param {string} code @param {string} message @param {{ after?: number, context?: Result }} [options] */
  constructor(code, message, options = {}) {
    super(code, message, options);
    this.after = optional(options.after, (after) => millis('after', after));
  }
}

export class Reject extends Failure {}

export class Payload {
  /** @param {Uint8Array} data @param {string | null} [contentType] */
  constructor(data, contentType = null) {
    this.data = data;
    this.contentType = contentType;
  }

  text() {
    return strict.decode(this.data);
  }

  /** @returns {any} */
  json() {
    return JSON.parse(this.text());
  }
}

/** @param {unknown} value */
export function json(value) {
  const written = JSON.stringify(value);
  if (written === undefined) throw new TypeError(`there is no JSON for ${describe(value)}`);
  return new Payload(utf8.encode(written), 'application/json');
}

/** @param {string} value */
export function text(value) {
  return new Payload(utf8.encode(value), 'text/plain; charset=utf-8');
}

/** @param {Uint8Array} data @param {string} [contentType] */
export function bytes(data, contentType) {
  return new Payload(data, contentType);
}

/** What a result, a follow-up's body or a failure's context is sent as. @param {any} value @returns {Payload | null} */
function payload(value) {
  if (value === undefined || value === null) return null;
  if (value instanceof Payload) return value;
  if (value instanceof Uint8Array) return bytes(value);
  if (typeof value === 'string') return text(value);
  if (typeof value.then === 'function') throw new TypeError('a promise is no payload: await it');
  if (typeof value === 'object') return json(value);
  throw new TypeError(`${describe(value)} is no payload: give text, bytes, an object, an array, or json(value)`);
}

export class Snooze {
  /** @param {number} wait */
  constructor(wait) {
    this.wait = millis('snooze', wait);
  }

  /** @returns {never} */
  text() {
    throw new Error(`the job is to run again after ${this.wait} ms: it has no result yet`);
  }

  /** @returns {never} */
  json() {
    return this.text();
  }
}

/** @param {number} wait */
export const snooze = (wait) => new Snooze(wait);

export class Job {
  /** @param {WireJob} given */
  constructor(given) {
    this.id = given.id;
    this.tenant = given.tenant;
    this.topic = given.topic;
    this.bytes = given.body.data;
    this.contentType = given.body.contentType ?? null;
    /** @type {readonly [string, string][]} */ this.metadata = given.metadata;
    this.key = given.key;
    this.attempt = given.attempt;
    this.maxAttempts = given.maxAttempts;
    this.enqueuedAt = given.enqueuedAt;
    this.dueAt = given.dueAt;
    this.deadline = given.deadline;
    this.checkpoint = given.checkpoint;
  }

  text() {
    try {
      return strict.decode(this.bytes);
    } catch {
      throw new Reject('bad-payload', 'the body is not UTF-8');
    }
  }

  /** @returns {unknown} */
  json() {
    const written = this.text();
    try {
      const surrogates = written.includes('\\ud') || written.includes('\\uD');
      return JSON.parse(written, surrogates ? wellFormed : undefined);
    } catch (error) {
      throw new Reject('bad-payload', `the body is not JSON: ${error.message}`);
    }
  }

  /** @param {string} name */
  meta(name) {
    return this.metadata.find(([found]) => found === name)?.[1];
  }
}

/** Refuses half a surrogate pair, which is no text and cannot be sent on. @param {string} key @param {unknown} value */
function wellFormed(key, value) {
  if (!key.isWellFormed() || (typeof value === 'string' && !value.isWellFormed())) {
    throw new SyntaxError('half a surrogate pair in a string');
  }
  return value;
}

/** @param {HandlerFunction} work */
export function handle(work) {
  if (typeof work !== 'function') throw new TypeError(`handle(${describe(work)}): give it the function that does the jobs`);
  return host.exported((job) => attempt(work, new Job(job)), failed, work);
}

/** @typedef {Payload | Snooze | Failure | null} Ending */

/**
 * One attempt: what `work` makes of `job`, or a promise of it.
 *
 * @param {HandlerFunction} work
 * @param {Job} job
 * @returns {Ending | Promise<Ending>}
 */
export function attempt(work, job) {
  const ended = (/** @type {unknown} */ result) => (result instanceof Snooze ? result : payload(result));
  try {
    const result = /** @type {any} */ (work(job));
    return typeof result?.then === 'function' ? Promise.resolve(result).then(ended).catch(failed) : ended(result);
  } catch (error) {
    return failed(error);
  }
}

/**
 * What an error makes of the attempt: one that is no {@link Failure} is a retry, its stack logged and kept; a request that the
 * runner refused is a reject.
 *
 * @param {any} error @returns {Failure}
 */
function failed(error) {
  if (error instanceof Failure) return error;
  const { tag, val } = error?.payload ?? error?.cause?.payload ?? {};
  const why = REFUSED.get(tag);
  if (why) return new Reject(`http-${tag}`, why(val));
  const code = ['timeout', 'unreachable'].includes(tag) ? `http-${tag}` : 'exception';
  if (!(error instanceof Error)) return new Retry(code, describe(error));
  const { stack, place } = host.traced(error);
  log.error('uncaught exception', { stack: `${error}\n${stack}`.trim() });
  return new Retry(code, place ? `${error} (${place})` : `${error}`, { context: stack.slice(0, STACK_MAX) });
}

/** Letters of a stack that are kept with the attempt. */
const STACK_MAX = 4000;

/** What the runner says of a request over HTTP that another try would not change. @type {Map<string, (what: unknown) => string>} */
const REFUSED = new Map([
  ['denied', (what) => `the request is not granted: ${what}`],
  ['invalid', (problem) => `the request cannot be sent: ${problem}`],
  ['too-large', (limit) => `the request or its answer is larger than ${limit} bytes`],
  ['too-many', (limit) => `one attempt may send no more than ${limit} requests`],
]);

/** @param {NewJob} job @returns {string} */
export function enqueue(job) {
  const { topic, body, json: value, after, at, unique, uniqueFor, priority = 'normal', key, metadata = [] } = job;
  if (!['high', 'normal', 'low'].includes(priority)) {
    throw new TypeError(`priority ${describe(priority)}: allowed are 'high', 'normal' and 'low'`);
  }
  const pairs = Array.isArray(metadata) ? metadata : Object.entries(metadata);
  /** @type {WireNewJob} */
  const wire = {
    topic: String(topic),
    body: (value === undefined ? payload(body) : json(value)) ?? bytes(new Uint8Array()),
    metadata: texts(pairs, String),
    key: optional(key, String),
    notBefore: after === undefined ? optional(at, (at) => millis('at', Number(at))) : now() + millis('after', after),
    unique: optional(unique, String),
    priority,
    uniqueWindow: optional(uniqueFor, (window) => millis('uniqueFor', window)),
  };
  const links = linked(job);
  if (links) wire.links = links;
  return host.enqueue(wire);
}

/** The links of a job, if it has any. @param {NewJob} job @returns {Links | null} */
function linked({ afterJobs = [], afterFailed = 'dead', batch, open = false }) {
  if (!['dead', 'run'].includes(afterFailed)) {
    throw new TypeError(`afterFailed ${describe(afterFailed)}: allowed are 'dead' and 'run'`);
  }
  if (!Array.isArray(afterJobs)) throw new TypeError(`afterJobs ${describe(afterJobs)}: give an array of ids`);
  const links = { after: afterJobs.map(String), afterFailed, batch: optional(batch, String), open: Boolean(open) };
  return afterJobs.length > 0 || links.batch !== null || links.open ? links : null;
}

/** @type {Declared['log']} */
export const log = {
  trace: (message, fields) => emit('trace', message, fields),
  debug: (message, fields) => emit('debug', message, fields),
  info: (message, fields) => emit('info', message, fields),
  warn: (message, fields) => emit('warn', message, fields),
  error: (message, fields) => emit('error', message, fields),
  enabled: (level) => host.enabled(level),
};

/** @param {Level} level @param {string} message @param {Fields} [fields] */
function emit(level, message, fields = {}) {
  host.emit(level, String(message), texts(Object.entries(fields), describe));
}

/** @type {Declared['config']} */
export const config = {
  get: (name) => host.get(name) ?? undefined,
  secret: (name) => host.secret(name) ?? undefined,
};

/** @type {Declared['state']} */
export const state = {
  get: () => host.getState() ?? undefined,
  set: (value) => host.setState(optional(value, (value) => (typeof value === 'string' ? utf8.encode(value) : value))),
  json() {
    const value = state.get();
    try {
      return value && JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(value));
    } catch (error) {
      throw new Reject('bad-state', `the state is not the expected JSON: ${error.message}`);
    }
  },
  setJson: (value) => state.set(JSON.stringify(value)),
};

export const now = () => host.now();

export const fuelRemaining = () => host.fuelRemaining();

export const isCancelled = () => host.isCancelled();

/** @param {Uint8Array | string} state */
export function checkpoint(state) {
  host.checkpoint(typeof state === 'string' ? utf8.encode(state) : state);
}

/** @param {number} done @param {string} [note] */
export function progress(done, note) {
  host.progress(Math.round(Math.min(Math.max(done, 0), 1) * 10_000) || 0, optional(note, String));
}

/** @param {[string, unknown][]} pairs @param {(value: unknown) => string} written @returns {[string, string][]} */
function texts(pairs, written) {
  // By index: to take an array apart by a pattern costs QuickJS several times as much.
  return pairs.map((pair) => [String(pair[0]), written(pair[1])]);
}

/** @template T, U @param {T | undefined | null} value @param {(value: T) => U} change @returns {U | null} */
function optional(value, change) {
  return value === undefined || value === null ? null : change(value);
}

/** The contract counts whole milliseconds, and a value of another kind would trap. @param {string} name @param {number} value */
function millis(name, value) {
  if (typeof value !== 'number' || !(value >= 0 && value <= Number.MAX_SAFE_INTEGER)) {
    throw new TypeError(`${name}: ${describe(value)} is no number of milliseconds`);
  }
  return Math.trunc(value);
}

/** Text as it is, anything else as JSON if there is any. @param {unknown} value @returns {string} */
export function describe(value) {
  if (typeof value === 'string') return value;
  if (value instanceof Error) return String(value);
  try {
    return JSON.stringify(value) ?? String(value);
  } catch {
    return String(value);
  }
}
