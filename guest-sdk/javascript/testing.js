/** A fake runner for tests: `types/testing.d.ts` says what it has. */
import { Failure, Job, Payload, Reject, Snooze, attempt, json, text } from './index.js';

/** @import { Ending, HandlerFunction, Level, WireJob, WireNewJob } from 'gristmill-guest' */
/** @import { Given, LogLine, Ran } from 'gristmill-guest/testing' */

/** 2026-01-01T00:00:00Z. */
export const NOW = 1_767_225_600_000;

export class Host {
  /** @type {WireNewJob[]} */ enqueued = [];
  /** @type {LogLine[]} */ logs = [];
  /** @type {Uint8Array | null} */ checkpoint = null;
  /** @type {{ basisPoints: number, note: string | null }[]} */ progress = [];
  /** @type {string | null} */ key = null;

  /** @param {Given} [given] */
  constructor({
    config = {}, secrets = {}, now = NOW, fuel = 1e12, cancelled = false, denied = [], state = null, stateLimit = 65_536, fetch = refused,
  } = {}) {
    this.config = config;
    this.secrets = secrets;
    this.now = now;
    this.fuel = fuel;
    this.cancelled = cancelled;
    this.denied = denied;
    this.state = typeof state === 'string' ? new TextEncoder().encode(state) : state;
    this.stateLimit = stateLimit;
    this.fetch = fetch;
  }

  /**
   * @template {ReturnType<HandlerFunction>} R
   * @param {(job: Job) => R} work
   * @param {string | Uint8Array | Payload | object} body
   * @param {Partial<Omit<WireJob, 'body'>>} [given]
   * @returns {Ran<R>}
   */
  run(work, body, given = {}) {
    const times = { enqueuedAt: this.now, dueAt: this.now, deadline: this.now + 30_000 };
    const names = { id: `01K${'0'.repeat(23)}`, tenant: 'default', topic: 'test', metadata: [], key: null };
    /** @type {WireJob} */
    const job = { ...names, ...times, attempt: 1, maxAttempts: 5, checkpoint: null, ...given, body: payload(body) };
    const { state } = this;
    const [host, fetch] = [current, globalThis.fetch];
    const restore = (/** @type {Ending} */ ending) => {
      if (ending instanceof Failure || ending instanceof Snooze) this.state = state;
      [current, globalThis.fetch] = [host, fetch];
      return ending;
    };
    current = this;
    this.key = job.key;
    globalThis.fetch = async (input, init) => this.fetch(new Request(input, init));
    const ending = attempt(work, new Job(job));
    return /** @type {Ran<R>} */ (ending instanceof Promise ? ending.then(restore) : restore(ending));
  }
}

/** @param {Request} request @returns {never} */
function refused({ url }) {
  const cause = { payload: { tag: 'denied', val: `this host answers no requests to ${url}` } };
  throw new TypeError(`fetch failed: ${cause.payload.val}`, { cause });
}

/** @param {string | Uint8Array | Payload | object} body */
function payload(body) {
  if (body instanceof Payload) return body;
  if (body instanceof Uint8Array) return new Payload(body);
  return typeof body === 'string' ? text(body) : json(body);
}

let current = new Host();

// What `index.js` finds under `#host` outside a component.

/** @param {(job: WireJob) => Ending | Promise<Ending>} attempt @param {(error: unknown) => Failure} _failed @param {unknown} _work */
export const exported = (attempt, _failed, _work) => ({ handle: attempt });
/** @param {Error} error */
export const traced = ({ stack = '' }) => ({ stack: stack.slice(stack.indexOf('\n') + 1), place: '' });
/** @param {string} name @returns {string | undefined} */
export const get = (name) => current.config[name];
/** @param {string} name @returns {Uint8Array | undefined} */
export const secret = (name) => current.secrets[name];
export const now = () => current.now;
export const fuelRemaining = () => current.fuel;
export const isCancelled = () => current.cancelled;
/** @param {Level} _level */
export const enabled = (_level) => true;
/** @param {Uint8Array} state */
export const checkpoint = (state) => void (current.checkpoint = state);
/** @param {number} basisPoints @param {string | null} note */
export const progress = (basisPoints, note) => void current.progress.push({ basisPoints, note });

export function getState() {
  if (!current.key) throw new Reject('no-key', 'the job has no key, so it has no state: push it with one');
  return current.state;
}

/** @param {Uint8Array | null} value */
export function setState(value) {
  getState();
  if (value && value.length > current.stateLimit) {
    throw new Reject('state-too-large', `the state is larger than ${current.stateLimit} bytes`);
  }
  current.state = value;
}

/** @param {Level} level @param {string} message @param {[string, string][]} fields */
export function emit(level, message, fields) {
  current.logs.push({ level, message, fields });
  if (level === 'error') console.error(message, ...fields.map(([, value]) => value));
}

/** @param {WireNewJob} job @returns {string} */
export function enqueue(job) {
  if (current.denied.includes(job.topic)) {
    throw new Reject('enqueue-failed', `this topic may not enqueue to \`${job.topic}\`; name it in the manifest's \`enqueue\` grant`);
  }
  current.enqueued.push(job);
  return `01K1${String(current.enqueued.length).padStart(22, '0')}`;
}
