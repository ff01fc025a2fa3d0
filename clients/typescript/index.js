// A client of a Gristmill server: push, wait, events, work, cancel. index.d.ts says what each does.

import { randomUUID } from 'node:crypto';
import { GristmillError, Http, sleep } from './http.js';
import { Worker, decoded } from './worker.js';

export { GristmillError } from './http.js';
export { Job, Reject, Retry, Snooze } from './worker.js';

/** Jobs in a request. */
const BATCH = 1000;
/** The server sends a comment every 15 s, so a stream that is silent for longer is dead. */
const QUIET_MS = 45_000;
const NAMES = { delayMs: 'delay_ms', ttlMs: 'ttl_ms', keepResultMs: 'keep_result_ms', attempts: 'attempts_max', afterFailed: 'after_failed', contentType: 'content_type' };

export class NewJob {
  constructor(body, options = {}) { Object.assign(this, { body, options }); }
}

export class Client {
  #tenant;
  #stop = new AbortController();

  constructor({ server = process.env.GRISTMILL_SERVER || 'http://127.0.0.1:7331', token = process.env.GRISTMILL_TOKEN, tenant = 'default', tries = 5 } = {}) {
    this.http = new Http(server, token, tries);
    this.#tenant = `/v1/tenants/${encodeURIComponent(tenant)}`;
  }

  async push(topic, body, options = {}) {
    return (await this.#push(topic, [fields(body, options)], false))[0];
  }

  async pushMany(topic, bodies, options = {}) {
    const jobs = bodies.map((it) => (it instanceof NewJob ? fields(it.body, { ...options, ...it.options }) : fields(it, options)));
    const pushed = [];
    for (let at = 0; at < jobs.length; at += BATCH) pushed.push(...(await this.#push(topic, jobs.slice(at, at + BATCH), true)));
    return pushed;
  }

  async #push(topic, jobs, isList) {
    let headers = { 'idempotency-key': randomUUID() };
    const made = [];
    if (this.http.repeats && jobs.some((job) => job.id || job.unique)) {
      headers = {}; // That key and these exclude each other: ids tell a repeated push from another one's.
      for (const job of jobs.filter((job) => !job.id)) made.push((job.id = randomUUID()));
    }
    const document = isList ? { jobs } : jobs[0];
    const path = `${this.#tenant}/topics/${encodeURIComponent(topic)}/jobs`;
    const [answer, tried] = await this.http.call('POST', path, { document, headers });
    for (const warning of answer.warnings ?? []) console.error(`gristmill: ${warning}`);
    const isStored = (id) => tried > 1 && made.includes(id); // By an earlier try.
    return (isList ? answer.jobs : [answer]).map(({ id, status, problem }) => ({ id, status: isStored(id) ? 'stored' : status, problem }));
  }

  async wait(job, { timeoutMs = 60_000 } = {}) {
    for (const until = performance.now() + timeoutMs; ; ) {
      const leftMs = Math.max(0, Math.ceil(until - performance.now()));
      const [view] = await this.http.call('GET', `${this.#job(job)}?wait_ms=${Math.min(leftMs, 30_000)}`);
      if (view.state === 'finished' || view.state === 'dead') {
        const { result, ended, last_failure: failure, state } = view;
        return { outcome: result?.outcome ?? ended?.outcome ?? state, result: decoded(result?.output), failure: result?.failure ?? failure ?? undefined };
      }
      if (leftMs === 0) throw new GristmillError('wait-timeout', 'Not over', `job ${view.id} is ${view.state} after ${timeoutMs} ms`);
    }
  }

  async cancel(job) {
    return (await this.http.call('DELETE', this.#job(job)))[0].status;
  }

  async events({ topic, job, kinds } = {}) {
    const asked = Object.entries({ topic, job: job && idOf(job), kind: kinds?.join(',') }).filter(([, value]) => value);
    const path = `${this.#tenant}/events?${new URLSearchParams(asked)}`;
    return this.#events(path, await this.#open(path));
  }

  async #open(path) {
    const quiet = new AbortController();
    return { body: (await this.http.send('GET', path, undefined, {}, quiet.signal)).body, quiet };
  }

  async *#events(path, stream) {
    for (;;) {
      try {
        yield* parsed(stream);
      } catch (error) {
        if (error instanceof SyntaxError) throw error;
      } finally {
        stream.quiet.abort();
      }
      await sleep(1000);
      try {
        stream = await this.#open(path);
        yield { kind: 'reconnected' };
      } catch (error) {
        if (!error.isTemporary) throw error;
      }
    }
  }

  async work(topic, run, { concurrency = 1, ...options } = {}) {
    await new Worker(this.http, this.#tenant, encodeURIComponent(topic), run, options, this.#stop).start(concurrency);
  }

  stop = () => this.#stop.abort();

  #job = (job) => `${this.#tenant}/jobs/${encodeURIComponent(idOf(job))}`;
}

/** A job as the API takes it. */
function fields(body, { at, after, traceparent, metadata, ...options }) {
  const job = body instanceof Uint8Array ? { body_base64: Buffer.from(body).toString('base64') } : { body: body ?? null };
  for (const [name, value] of Object.entries(options)) if (value !== undefined) job[NAMES[name] ?? name] = value;
  if (at !== undefined) job.at_ms = Number(at);
  if (after !== undefined) job.after = after.map(idOf);
  if (metadata || traceparent) job.metadata = { ...metadata, ...(traceparent && { traceparent }) };
  return job;
}

/** Server-sent events, as far as the server uses them. */
async function* parsed({ body, quiet }) {
  let [rest, kind] = ['', ''];
  let timer = setTimeout(() => quiet.abort(), QUIET_MS);
  try {
    for await (const text of body.pipeThrough(new TextDecoderStream())) {
      timer.refresh();
      const lines = (rest + text).split('\n');
      rest = lines.pop();
      for (const line of lines) {
        if (line.startsWith('event: ')) kind = line.slice(7);
        if (line.startsWith('data: ')) yield { kind, ...JSON.parse(line.slice(6)) };
      }
    }
  } finally {
    clearTimeout(timer);
  }
}

const idOf = (job) => job.id ?? job;
