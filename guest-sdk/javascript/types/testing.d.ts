/** A fake runner for tests: {@link Host} grants, refuses and remembers. No WebAssembly and no server. */
import type { Ending, HandlerFunction, Job, Level, Payload, WireJob, WireNewJob } from 'gristmill-guest';

/** The fake clock stands still: 2026-01-01T00:00:00Z. */
export const NOW: number;

export interface LogLine {
  level: Level;
  message: string;
  fields: [string, string][];
}

/** What the handler finds. */
export interface Given {
  config?: Record<string, string>;
  secrets?: Record<string, Uint8Array>;
  now?: number;
  fuel?: number;
  cancelled?: boolean;
  /** Topics that may not be enqueued to. */
  denied?: string[];
  /** Of the job's key: bytes or text. */
  state?: Uint8Array | string | null;
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
export class Host implements Required<Given> {
  config: Record<string, string>;
  secrets: Record<string, Uint8Array>;
  now: number;
  fuel: number;
  cancelled: boolean;
  denied: string[];
  /** Of the job's key: what it was given, and after an attempt what that left if it completed. */
  state: Uint8Array | null;
  stateLimit: number;
  fetch: (request: Request) => Response | Promise<Response>;

  readonly enqueued: WireNewJob[];
  readonly logs: LogLine[];
  readonly progress: { basisPoints: number; note: string | null }[];
  checkpoint: Uint8Array | null;

  constructor(given?: Given);

  /**
   * One attempt at a job: the payload, the `Snooze`, null, or the `Retry` or `Reject` that ended it; of an `async` handler a promise of that.
   * `body` is text, bytes, or an object for JSON; `given` is what else the job has, as in `{ attempt: 2 }`. Meanwhile `fetch` is this
   * host's: run one at a time.
   */
  run<R extends ReturnType<HandlerFunction>>(
    work: (job: Job) => R,
    body: string | Uint8Array | Payload | object,
    given?: Partial<Omit<WireJob, 'body'>>,
  ): Ran<R>;
}
