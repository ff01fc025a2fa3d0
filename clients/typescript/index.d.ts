/** How a push went: `stored`; `exists` (a job with this id waits, runs or is dead); `duplicate` (`id` is the job that holds the unique value); of many, `refused`. */
export interface Pushed {
  id: string;
  status: 'stored' | 'exists' | 'duplicate' | 'refused';
  /** Why it is refused. */
  problem?: string;
}

export interface Failure {
  reason: string;
  code: string;
  message: string;
}

/** How a job ended. It has the result if `keepResultMs` or the topic keeps it: bytes, or what JSON says, or a text. */
export interface End<Result = any> {
  outcome: 'complete' | 'dead' | 'expired' | 'cancelled' | 'deleted';
  result?: Result;
  failure?: Failure;
}

export interface PushOptions {
  delayMs?: number;
  at?: Date | number;
  key?: string;
  unique?: string | { value: string; window_ms: number };
  priority?: 'high' | 'normal' | 'low';
  /** Jobs that end before this one starts. */
  after?: (string | Pushed)[];
  afterFailed?: 'dead' | 'run';
  attempts?: number;
  ttlMs?: number;
  keepResultMs?: number;
  id?: string;
  metadata?: Record<string, string>;
  traceparent?: string;
  contentType?: string;
  batch?: string;
  open?: boolean;
}

export interface Event {
  /** As docs/reference/events.md names them, or `reconnected`: events between may be missing. */
  kind: string;
  at_ms?: number;
  topic?: string;
  job?: string;
  [field: string]: unknown;
}

export interface EventFilter {
  topic?: string;
  job?: string | Pushed;
  kinds?: string[];
}

export interface WorkOptions {
  /** Jobs at once. 1 without it. */
  concurrency?: number;
  /** How long a job is held without a heartbeat. A minute without it. */
  leaseMs?: number;
  /** For operators. */
  name?: string;
}

/** A claimed job. */
export interface Job<Body = any> {
  readonly id: string;
  readonly topic: string;
  /** Bytes, or what JSON says, or a text. */
  readonly body: Body;
  readonly key: string | null;
  readonly metadata: Record<string, string>;
  readonly attempt: number;
  readonly attemptsMax: number;
  /** Why the last attempt failed. */
  readonly previous: string | null;
  readonly traceparent: string | null;
  /** Aborted if there is no point in going on: the job was cancelled, or another worker has it. */
  readonly signal: AbortSignal;
}

/** What it returns is the result. It throws `Snooze`, `Retry` or `Reject`; any other error is a retry. */
export type Run<Body = any> = (job: Job<Body>) => unknown;

/** A job of `pushMany` that has options of its own. */
export class NewJob {
  constructor(body: unknown, options?: PushOptions);
  body: unknown;
  options: PushOptions;
}

/** A client of one tenant. Server and token are `$GRISTMILL_SERVER` (or http://127.0.0.1:7331) and `$GRISTMILL_TOKEN`, unless they are given. */
export class Client {
  constructor(options?: { server?: string; token?: string; tenant?: string; tries?: number });
  /** Pushes a job whose body is `body` as JSON, or these bytes. Tries again by itself, and then stores the job once. */
  push(topic: string, body: unknown, options?: PushOptions): Promise<Pushed>;
  /** Pushes a job for each body, or `NewJob`. Each request of up to 1000 jobs is stored as a whole. */
  pushMany(topic: string, bodies: unknown[], options?: PushOptions): Promise<Pushed[]>;
  wait<Result = any>(job: string | Pushed, options?: { timeoutMs?: number }): Promise<End<Result>>;
  /** What happens from now on. */
  events(filter?: EventFilter): Promise<AsyncGenerator<Event, void, void>>;
  /** Works the jobs of a topic with `handler = "external"` until `stop()` or SIGTERM; then what runs is ended and settled. */
  work<Body = any>(topic: string, run: Run<Body>, options?: WorkOptions): Promise<void>;
  /** Ends `work`, now or as soon as it is called: no job is claimed any more. */
  stop(): void;
  /** `gone` if the job waited, `stopping` if it runs. */
  cancel(job: string | Pushed): Promise<'gone' | 'stopping'>;
}

/** Run the job again later, with no attempt used. */
export class Snooze extends Error {
  constructor(afterMs: number);
  afterMs: number;
}

/** The attempt failed; the next one comes after `afterMs`, or by the topic's backoff. */
export class Retry extends Error {
  constructor(message?: string, options?: { code?: string; afterMs?: number });
  code: string;
  afterMs?: number;
}

/** The job can never succeed: it is dead at once. */
export class Reject extends Error {
  constructor(message?: string, options?: { code?: string });
  code: string;
}

/** What the server refused, by its problem document. `status` is 0 without an answer; then `code` is `unreachable` or `wait-timeout`. */
export class GristmillError extends Error {
  code: string;
  title: string;
  detail: string;
  status: number;
  retryAfterMs: number;
  /** Another try may go better. */
  isTemporary: boolean;
}
