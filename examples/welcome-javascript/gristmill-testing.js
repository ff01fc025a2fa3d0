/** A fake runner for tests: {@link Host} grants, refuses and remembers. No WebAssembly and no server. */
import { Failure, Job, Payload, Reject, Snooze, attempt, json, text } from './gristmill.js';

/** The fake clock stands still: 2026-01-01T00:00:00Z. */
export const NOW = 1_767_225_600_000;

/**
 * What the handler finds, and what it did. Every topic but the denied may be enqueued to.
 *
 *     const host = new Host({ config: { greylist: 'example.net' } });
 *     const ending = host.run(welcome, { email: 'ada@example.org', name: 'Ada' });
 */
export class Host {
  /** @type {object[]} */ enqueued = [];
  /** @type {{ level: string, message: string, fields: [string, string][] }[]} */ logs = [];
  /** @type {Uint8Array | null} */ checkpoint = null;
  /** @type {{ basisPoints: number, note: string | null }[]} */ progress = [];

  /**
   * @param {object} [given]
   * @param {Record<string, string>} [given.config]
   * @param {Record<string, Uint8Array>} [given.secrets]
   * @param {number} [given.now]
   * @param {number} [given.fuel]
   * @param {boolean} [given.cancelled]
   * @param {string[]} [given.denied] topics that may not be enqueued to
   * @param {Uint8Array | null} [given.state] of the job's key; after an attempt, what that left if it completed
   * @param {number} [given.stateLimit] the most bytes that a state may have
   * @param {(request: Request) => Response | Promise<Response>} [given.fetch] answers requests; without it, none is granted
   */
  constructor(given = {}) {
    const nothing = { config: {}, secrets: {}, now: NOW, fuel: 1e12, cancelled: false, denied: [], fetch: refused };
    Object.assign(this, { ...nothing, state: null, stateLimit: 65_536 }, given);
  }

  /**
   * One attempt at a job: the payload, the `Snooze`, null, or the `Retry` or `Reject` that ended it; of an `async` handler a promise
   * of that. Meanwhile `fetch` is this host's: run one at a time.
   *
   * @param {import('./gristmill.js').HandlerFunction} work
   * @param {string | Uint8Array | Payload | object} body text, bytes, or an object for JSON
   * @param {Record<string, unknown>} [given] what else the job has, as in `{ attempt: 2 }`
   */
  run(work, body, given = {}) {
    const times = { enqueuedAt: this.now, dueAt: this.now, deadline: this.now + 30_000 };
    const names = { id: `01K${'0'.repeat(23)}`, tenant: 'default', topic: 'test', metadata: [], key: null };
    const job = { ...names, ...times, attempt: 1, maxAttempts: 5, checkpoint: null, ...given, body: payload(body) };
    const before = [current, globalThis.fetch];
    const { state } = this;
    const restore = (ending) => {
      if (ending instanceof Failure || ending instanceof Snooze) this.state = state;
      [current, globalThis.fetch] = before;
      return ending;
    };
    current = this;
    this.key = job.key;
    globalThis.fetch = async (input, init) => this.fetch(new Request(input, init));
    const ending = attempt(work, new Job(job));
    return ending instanceof Promise ? ending.then(restore) : restore(ending);
  }
}

/** @param {Request} request */
function refused({ url }) {
  const cause = { payload: { tag: 'denied', val: `this host answers no requests to ${url}` } };
  throw new TypeError(`fetch failed: ${cause.payload.val}`, { cause });
}

function payload(body) {
  if (body instanceof Payload) return body;
  if (body instanceof Uint8Array) return new Payload(body);
  return typeof body === 'string' ? text(body) : json(body);
}

let current;

// What `gristmill.js` finds under `#host` outside a component.
export const exported = (attempt) => ({ handle: attempt });
export const traced = ({ stack }) => ({ stack: stack.slice(stack.indexOf('\n') + 1), place: '' });
export const get = (name) => current.config[name];
export const secret = (name) => current.secrets[name];
export const now = () => current.now;
export const fuelRemaining = () => current.fuel;
export const isCancelled = () => current.cancelled;
export const enabled = () => true;
export const checkpoint = (state) => void (current.checkpoint = state);
export const progress = (basisPoints, note) => void current.progress.push({ basisPoints, note });

export function getState() {
  if (!current.key) throw new Reject('no-key', 'the job has no key, so it has no state: push it with one');
  return current.state;
}

export function setState(value) {
  getState();
  if (value && value.length > current.stateLimit) {
    throw new Reject('state-too-large', `the state is larger than ${current.stateLimit} bytes`);
  }
  current.state = value;
}

export function emit(level, message, fields) {
  current.logs.push({ level, message, fields });
  if (level === 'error') console.error(message, ...fields.map(([, value]) => value));
}

export function enqueue(job) {
  if (current.denied.includes(job.topic)) {
    throw new Reject('enqueue-failed', `this topic may not enqueue to \`${job.topic}\`; name it in the manifest's \`enqueue\` grant`);
  }
  current.enqueued.push(job);
  return `01K1${String(current.enqueued.length).padStart(22, '0')}`;
}
