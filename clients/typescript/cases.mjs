// Plays clients/cases.json against the server at $GRISTMILL_SERVER, and prints what came of each step, one a line.
//
//     node cases.mjs ../cases.json TENANT      # $GRISTMILL_FAULTY is a proxy that fails pushes

import { readFileSync } from 'node:fs';
import { Client, GristmillError, Reject, Retry, Snooze } from 'gristmill-client';
import { Fake } from 'gristmill-client/testing';

const [file, tenant] = process.argv.slice(2);
const NAMES = { delay_ms: 'delayMs', keep_result_ms: 'keepResultMs' };
const clients = {
  '': new Client({ tenant }),
  faulty: new Client({ tenant, server: process.env.GRISTMILL_FAULTY }),
  moved: new Client({ tenant, server: `${process.env.GRISTMILL_FAULTY}/moved` }),
  stranger: new Client({ tenant, token: 'gm_wrong' }),
  nowhere: new Client({ tenant, server: 'http://127.0.0.1:1', tries: 2 }),
  fake: new Fake(),
};
const [jobs, streams] = [new Map(), {}];
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function options(step) {
  const given = Object.fromEntries(Object.entries(step.options ?? {}).map(([name, value]) => [NAMES[name] ?? name, value]));
  const { at_in_ms: at, after, ...rest } = given;
  return { ...rest, ...(at && { at: new Date(Date.now() + at) }), ...(after && { after: after.map((name) => jobs.get(name)) }) };
}

const payload = (name, value) => (value instanceof Uint8Array ? { bytes: Buffer.from(value).toString('base64') } : { [name]: value });

/** What a worker does with a job: `kind` says how it ends. */
function work(kind, { worked = [], until, client } = {}) {
  let isStopped = false;
  process.once('SIGTERM', () => (isStopped = true));
  return async (job) => {
    worked.push({ ...payload('body', job.body), attempt: job.attempt, key: job.key, traceparent: job.traceparent });
    if (worked.length === until) client.stop();
    if (kind === 'retry' && worked.length === 1) throw new Retry('once more', { afterMs: 0 });
    if (kind === 'snooze' && worked.length === 1) throw new Snooze(100);
    if (kind === 'reject') throw new Reject('there is no address', { code: 'no-address' });
    if (kind === 'fail') throw new Error('broken');
    if (kind === 'cancelled') {
      await client.cancel(job.id);
      for (let looks = 0; !job.signal.aborted && looks < 3000; looks++) await sleep(20);
      throw new Error(job.signal.aborted ? 'cancelled' : 'no heartbeat');
    }
    if (kind === 'sigterm') {
      process.kill(process.pid, 'SIGTERM');
      for (let looks = 0; !isStopped && looks < 3000; looks++) await sleep(20);
    }
    return kind === 'large' ? 'x'.repeat(1 << 20) : job.body;
  };
}

const steps = {
  async push(step, client) {
    const body = step.bytes === undefined ? step.body : new Uint8Array(Buffer.from(step.bytes, 'base64'));
    const pushed = await client.push(step.topic, body, options(step));
    const same = [...jobs].find(([, job]) => job.id === pushed.id)?.[0];
    jobs.set(step.as, pushed);
    return { status: pushed.status, is: same };
  },
  async push_many(step, client) {
    const pushed = await client.pushMany(step.topic, step.bodies, options(step));
    pushed.forEach((job, index) => jobs.set(`${step.as}${index}`, job));
    return { statuses: pushed.map((job) => job.status) };
  },
  async wait(step, client) {
    const { outcome, result, failure } = await client.wait(jobs.get(step.job) ?? step.job, { timeoutMs: step.timeout_ms });
    return { outcome, ...payload('result', result), failure: failure && { reason: failure.reason, code: failure.code, message: failure.message } };
  },
  cancel: async (step, client) => ({ cancelled: await client.cancel(jobs.get(step.job)) }),
  async work(step, client) {
    const [worked, worker] = [[], step.client ? client : new Client({ tenant })];
    await worker.work(step.topic, work(step.function, { worked, until: step.until, client: worker }), { leaseMs: step.lease_ms });
    return { worked };
  },
  async listen(step, client) {
    streams[step.client ?? ''] = await client.events({ topic: step.topic });
    return { listening: true };
  },
  async hear(step) {
    const [events, kinds] = [streams[step.client ?? ''], []];
    while (kinds.length < step.count) {
      const { value: event } = await events.next();
      if (event.job === jobs.get(step.job).id) kinds.push(event.kind);
    }
    await events.return();
    return { kinds: kinds.sort() };
  },
  pushed: async (step) => ({ pushed: clients.fake.pushed(step.topic) }),
  async inline(step) {
    clients.fake.inline(step.topic, work(step.function));
    return { inline: true };
  },
};

for (const { steps: list } of JSON.parse(readFileSync(file, 'utf8')).cases) {
  jobs.clear();
  for (const step of list) {
    let line;
    try {
      line = await steps[step.do](step, clients[step.client ?? '']);
    } catch (error) {
      if (!(error instanceof GristmillError)) throw error;
      const named = error.detail.match(/http:\/\/[\d.:]*\d/);
      line = { error: error.code, status: error.status, ...(named && { address: named[0] }) };
    }
    console.log(JSON.stringify(line));
  }
}
