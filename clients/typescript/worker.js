// Claims jobs, runs a function for each, and settles them.

import { GristmillError, sleep } from './http.js';

class Ending extends Error {
  constructor(message, fields) {
    super(message);
    Object.assign(this, { name: new.target.name, ...fields });
  }
}
export class Snooze extends Ending {
  constructor(afterMs) { super(`again in ${afterMs} ms`, { afterMs }); }
}
export class Retry extends Ending {
  constructor(message = '', { code = 'retry', afterMs } = {}) { super(message, { code, afterMs }); }
}
export class Reject extends Ending {
  constructor(message = '', { code = 'reject' } = {}) { super(message, { code }); }
}

export class Job {
  #body;
  #cancel = new AbortController();
  signal = this.#cancel.signal;

  constructor(claim) {
    const { id, topic, key, body, metadata } = claim.job.spec;
    const { lease, attempt, attempts_max: attemptsMax, previous, traceparent } = claim;
    Object.assign(this, { id, topic, key, metadata: Object.fromEntries(metadata), lease, attempt, attemptsMax, previous, traceparent });
    this.#body = body;
  }

  get body() { return decoded(this.#body); }

  cancel = () => this.#cancel.abort();
}

/** Runs the function, and says how the attempt ended. */
export async function settlement(job, run) {
  try {
    const value = await run(job);
    return { ack: value === undefined ? {} : { result: encoded(value) } };
  } catch (it) {
    if (it instanceof Snooze) return { snooze_ms: it.afterMs };
    const code = it instanceof Retry || it instanceof Reject ? it.code : (it?.name ?? 'Error');
    const failure = { error: { code, message: String(it?.message ?? it) } };
    if (it instanceof Reject) return { bury: failure };
    if (job.signal.aborted) return { release: {} };
    return { retry: it instanceof Retry && it.afterMs !== undefined ? { ...failure, after_ms: it.afterMs } : failure };
  }
}

/** One call of `work`. `stop` is an AbortController. */
export class Worker {
  #jobs = new Set();

  constructor(http, tenant, topic, run, { leaseMs = 60_000, name = `node-${process.pid}` }, stop) {
    Object.assign(this, { http, tenant, topic, run, leaseMs, name, stop });
  }

  async start(concurrency) {
    const onSignal = () => this.stop.abort();
    process.once('SIGTERM', onSignal);
    const beat = setInterval(() => this.#beat().catch(() => {}), this.leaseMs / 3);
    const ends = await Promise.allSettled(Array.from({ length: concurrency }, () => this.#loop()));
    clearInterval(beat);
    process.off('SIGTERM', onSignal);
    const failure = ends.find((end) => end.status === 'rejected');
    if (failure) throw failure.reason;
  }

  async #loop() {
    const document = { lease_ms: this.leaseMs, wait_ms: 30_000, worker: this.name };
    while (!this.stop.signal.aborted) {
      try {
        const path = `${this.tenant}/topics/${this.topic}/claim`;
        const [{ claims }] = await this.http.call('POST', path, { document, tries: 1, signal: this.stop.signal });
        for (const claim of claims) await this.#do(new Job(claim));
      } catch (error) {
        if (this.stop.signal.aborted) return;
        if (!(error.isTemporary || error.status >= 500)) {
          this.stop.abort();
          throw error;
        }
        console.error(`gristmill: no claim: ${error.message}`);
        await sleep(Math.max(1000, error.retryAfterMs), this.stop.signal);
      }
    }
  }

  async #do(job) {
    this.#jobs.add(job);
    const end = this.stop.signal.aborted ? { release: {} } : await settlement(job, this.run);
    this.#jobs.delete(job);
    await this.#settle(job, end).catch(async (error) => {
      console.error(`gristmill: job ${job.id} is not settled: ${error.message}`);
      // Such as a result that is too large.
      await this.#settle(job, { retry: { error: { code: error.code, message: error.detail } } }).catch(() => {});
    });
  }

  #settle({ lease }, end) {
    return this.http.call('POST', `${this.tenant}/leases/settle`, { document: { settlements: [{ lease, ...end }] } });
  }

  async #beat() {
    const jobs = [...this.#jobs];
    if (jobs.length === 0) return;
    const document = { leases: jobs.map((job) => job.lease), lease_ms: this.leaseMs };
    const [{ extended }] = await this.http.call('POST', `${this.tenant}/leases/extend`, { document, tries: 1 });
    jobs.forEach((job, index) => extended[index] === 'extended' || job.cancel());
  }
}

export function decoded(payload) {
  if (!payload) return undefined;
  if (payload.base64 !== undefined) return new Uint8Array(Buffer.from(payload.base64, 'base64'));
  return payload.content_type?.startsWith('application/json') ? JSON.parse(payload.text) : payload.text;
}

export function encoded(value) {
  if (!(value instanceof Uint8Array)) return { text: JSON.stringify(value), content_type: 'application/json' };
  return { base64: Buffer.from(value).toString('base64'), content_type: 'application/octet-stream' };
}
