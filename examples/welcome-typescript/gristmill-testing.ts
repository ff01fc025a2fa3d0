/** A fake runner for tests: {@link Host} grants, refuses and remembers. No WebAssembly and no server. */
import { Failure, Job, Payload, Reject, Snooze, attempt, json, text } from './gristmill.ts';
import type { Ending, HandlerFunction, Level, WireJob, WireNewJob } from './gristmill.ts';

/** The fake clock stands still: 2026-01-01T00:00:00Z. */
export const NOW = 1_767_225_600_000;

export interface LogLine {
  level: Level;
  message: string;
  fields: [string, string][];
}

interface Given {
  config?: Record<string, string>;
  secrets?: Record<string, Uint8Array>;
  now?: number;
  fuel?: number;
  cancelled?: boolean;
  /** Topics that may not be enqueued to. */
  denied?: string[];
  /** Of the job's key. */
  state?: Uint8Array | null;
  /** The most bytes that a state may have. */
  stateLimit?: number;
  /** Answers requests; without it, none is granted. */
  fetch?: (request: Request) => Response | Promise<Response>;
}

/** What a handler that returns `R` comes to. */
type Ran<R> = 0 extends 1 & R ? Ending : [R] extends [never] ? Ending : R extends PromiseLike<unknown> ? Promise<Ending> : Ending;

/**
 * What the handler finds, and what it did. Every topic but the denied may be enqueued to.
 *
 *     const host = new Host({ config: { greylist: 'example.net' } });
 *     const ending = host.run(welcome, { email: 'ada@example.org', name: 'Ada' });
 */
export class Host {
  readonly enqueued: WireNewJob[] = [];
  readonly logs: LogLine[] = [];
  checkpoint: Uint8Array | null = null;
  readonly progress: { basisPoints: number; note: string | null }[] = [];
  /** Of the job's key: what it was given, and after an attempt what that left if it completed. */
  state: Uint8Array | null;
  key: string | null = null;
  readonly given: Required<Given>;

  constructor(given: Given = {}) {
    const nothing = { config: {}, secrets: {}, now: NOW, fuel: 1e12, cancelled: false, denied: [], fetch: refused };
    this.given = { ...nothing, state: null, stateLimit: 65_536, ...given };
    this.state = this.given.state;
  }

  /**
   * One attempt at a job. `body` is text, bytes, or an object for JSON; `given` is what else the job has. Of an `async` handler, it is
   * a promise. Meanwhile `fetch` is this host's: run one at a time.
   */
  run<R extends ReturnType<HandlerFunction>>(
    work: (job: Job) => R,
    body: string | Uint8Array | object,
    given: Partial<Omit<WireJob, 'body'>> = {},
  ): Ran<R> {
    const { now } = this.given;
    const times = { enqueuedAt: now, dueAt: now, deadline: now + 30_000 };
    const names = { id: `01K${'0'.repeat(23)}`, tenant: 'default', topic: 'test', metadata: [], key: null };
    const job = { ...names, ...times, attempt: 1, maxAttempts: 5, checkpoint: null, ...given, body: payload(body) };
    const before: [Host, typeof fetch] = [current, globalThis.fetch];
    const { state } = this;
    const restore = (ending: Ending): Ending => {
      if (ending instanceof Failure || ending instanceof Snooze) this.state = state;
      [current, globalThis.fetch] = before;
      return ending;
    };
    current = this;
    this.key = job.key;
    globalThis.fetch = async (input, init) => this.given.fetch(new Request(input, init));
    const ending = attempt(work, new Job(job));
    return (ending instanceof Promise ? ending.then(restore) : restore(ending)) as Ran<R>;
  }
}

function refused({ url }: Request): never {
  const cause = { payload: { tag: 'denied', val: `this host answers no requests to ${url}` } };
  throw new TypeError(`fetch failed: ${cause.payload.val}`, { cause });
}

function payload(body: string | Uint8Array | object): Payload {
  if (body instanceof Payload) return body;
  if (body instanceof Uint8Array) return new Payload(body);
  return typeof body === 'string' ? text(body) : json(body);
}

let current = new Host();

// What `gristmill.ts` finds under `#host` outside a component.
export const exported = (attempt: (job: WireJob) => Ending | Promise<Ending>, _failed: (error: unknown) => Failure): object => ({ handle: attempt });
export const traced = ({ stack = '' }: Error): { stack: string; place: string } => ({
  stack: stack.slice(stack.indexOf('\n') + 1),
  place: '',
});
export const get = (name: string): string | null => current.given.config[name] ?? null;
export const secret = (name: string): Uint8Array | null => current.given.secrets[name] ?? null;
export const now = (): number => current.given.now;
export const fuelRemaining = (): number => current.given.fuel;
export const isCancelled = (): boolean => current.given.cancelled;
export const enabled = (_level: Level): boolean => true;

export function checkpoint(state: Uint8Array): void {
  current.checkpoint = state;
}

export function getState(): Uint8Array | null {
  if (!current.key) throw new Reject('no-key', 'the job has no key, so it has no state: push it with one');
  return current.state;
}

export function setState(value: Uint8Array | null): void {
  getState();
  if (value && value.length > current.given.stateLimit) {
    throw new Reject('state-too-large', `the state is larger than ${current.given.stateLimit} bytes`);
  }
  current.state = value;
}

export function progress(basisPoints: number, note: string | null): void {
  current.progress.push({ basisPoints, note });
}

export function emit(level: Level, message: string, fields: [string, string][]): void {
  current.logs.push({ level, message, fields });
  if (level === 'error') console.error(message, ...fields.map(([, value]) => value));
}

export function enqueue(job: WireNewJob): string {
  if (current.given.denied.includes(job.topic)) {
    throw new Reject('enqueue-failed', `this topic may not enqueue to \`${job.topic}\`; name it in the manifest's \`enqueue\` grant`);
  }
  current.enqueued.push(job);
  return `01K1${String(current.enqueued.length).padStart(22, '0')}`;
}
