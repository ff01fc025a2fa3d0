// A client without a server, for tests. testing.d.ts says what it does.

import { GristmillError } from './http.js';
import { Client } from './index.js';
import { Job, encoded, settlement } from './worker.js';

export class Fake extends Client {
  constructor() {
    super({ server: 'http://fake.invalid' });
    this.http = new Server();
  }

  pushed(topic) {
    return this.http.pushed.filter((job) => topic === undefined || job.topic === topic);
  }

  inline(topic, run) {
    this.http.inline[topic] = run;
  }

  async work(topic, run) {
    for (const view of this.http.waiting(topic)) await this.http.run(view, run);
  }

  async events({ topic, job, kinds } = {}) {
    const wanted = { topic: topic && [topic], job: job && [job.id ?? job], kind: kinds };
    const fits = (event) => Object.entries(wanted).every(([name, some]) => !some || some.includes(event[name]));
    const events = this.http.events.filter(fits);
    return (async function* () { yield* events; })();
  }
}

/** In place of `Http`. */
class Server {
  repeats = false;
  pushed = [];
  views = new Map();
  inline = {};
  events = [];

  async call(method, path, { document } = {}) {
    const name = decodeURIComponent(path.split('?')[0].split('/')[5]);
    if (method === 'POST') {
      const answers = [];
      for (const job of document.jobs ?? [document]) answers.push(await this.push(name, job));
      return [document.jobs ? { jobs: answers } : answers[0], 1];
    }
    const view = this.views.get(name);
    if (!view) throw new GristmillError('job-unknown', 'Not Found', `job ${name} was not pushed`, 404);
    if (method === 'GET') return [view, 1];
    if (view.state !== 'ready') throw new GristmillError('too-late', 'Conflict', `job ${name} is over`, 409);
    this.say(view, 'job-cancelled', { state: 'finished', result: { outcome: 'cancelled' } });
    return [{ status: 'gone' }, 1];
  }

  waiting(topic) {
    return [...this.views.values()].filter((view) => view.topic === topic && view.state === 'ready');
  }

  async push(topic, document) {
    const job = { topic, ...JSON.parse(JSON.stringify(document)) };
    const unique = JSON.stringify(job.unique);
    const holder = unique && this.waiting(topic).find((view) => JSON.stringify(view.job.unique) === unique);
    if (holder) return { id: holder.id, status: 'duplicate' };
    const id = job.id ?? `fake-${this.views.size + 1}`;
    const view = { id, topic, job };
    this.pushed.push(job);
    this.views.set(id, view);
    this.say(view, 'job-pushed', { state: 'ready' });
    if (this.inline[topic]) await this.run(view, this.inline[topic]);
    return { id, status: 'stored' };
  }

  /** One attempt, and further ones at once as long as the option `attempts` allows them. */
  async run(view, run) {
    const most = view.job.attempts_max ?? 1;
    for (let attempt = 1; attempt <= most; attempt++) {
      const { ack, snooze_ms, bury, retry } = await settlement(new Job(claim(view, attempt, most)), run);
      if (ack) return this.say(view, 'job-completed', { state: 'finished', result: { outcome: 'complete', output: ack.result } });
      if (snooze_ms !== undefined) return this.say(view, 'job-snoozed', {});
      if (!bury && attempt < most) continue;
      const last_failure = { reason: bury ? 'rejected' : 'failed', ...(bury ?? retry).error };
      return this.say(view, 'job-dead', { state: 'dead', last_failure });
    }
  }

  say(view, kind, changed) {
    Object.assign(view, changed);
    this.events.push({ kind, topic: view.topic, job: view.id });
  }
}

/** What a worker would get for the job. */
function claim({ id, topic, job }, attempt, attempts_max) {
  const body = job.body_base64 === undefined ? encoded(job.body) : { base64: job.body_base64 };
  const metadata = Object.entries(job.metadata ?? {});
  const traceparent = job.metadata?.traceparent ?? null;
  return { lease: '', attempt, attempts_max, previous: null, traceparent, job: { spec: { id, topic, key: job.key ?? null, body, metadata } } };
}
