import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Payload, Reject, Retry, enqueue, state } from 'gristmill-guest';
import type { Ending, Job } from 'gristmill-guest';
import { Host, NOW } from 'gristmill-guest/testing';
import { welcome } from './handler.ts';

const ADA = { email: 'ada@example.org', name: 'Ada' };

/** What a job's result or a follow-up's body says. */
function written(ending: Ending): string {
  assert.ok(ending instanceof Payload);
  assert.equal(ending.contentType, 'application/json');
  return new TextDecoder().decode(ending.data);
}

/** The code of the reject that an attempt came to. */
function rejection(ending: Ending): string {
  assert.ok(ending instanceof Reject);
  return ending.code;
}

test('a signup is welcomed', () => {
  const ending = new Host().run(welcome, ADA);
  assert.equal(written(ending), '{"email":"ada@example.org","name":"Ada","plan":"free","greeting":"Welcome, Ada!"}');
});

test('a reminder asks', () => {
  const host = new Host();
  const ending = host.run(welcome, { ...ADA, plan: 'pro', reminder: true });
  assert.equal(JSON.parse(written(ending)).greeting, 'Still there, Ada?');
  assert.deepEqual(host.logs, [{ level: 'info', message: 'reminder', fields: [['domain', 'example.org'], ['plan', 'pro']] }]);
  assert.deepEqual(host.enqueued, []);
});

test('a signup is followed up after three days', () => {
  const host = new Host();
  host.run(welcome, ADA, { topic: 'welcome' });
  const [followUp, ...more] = host.enqueued;
  assert.ok(followUp);
  assert.deepEqual(more, []);
  const { body, ...job } = followUp;
  assert.equal(written(body), '{"email":"ada@example.org","name":"Ada","plan":"free","reminder":true}');
  assert.deepEqual(job, {
    topic: 'welcome',
    notBefore: NOW + 259_200_000,
    unique: 'reminder:ada@example.org',
    uniqueWindow: null,
    priority: 'low',
    metadata: [],
    key: null,
  });
});

test('the log never shows the address', () => {
  const host = new Host();
  host.run(welcome, ADA);
  assert.deepEqual(host.logs, [{ level: 'info', message: 'signup', fields: [['domain', 'example.org'], ['plan', 'free']] }]);
});

test('email and name are tidied up', () => {
  const ending = new Host().run(welcome, { email: ' Ada@Example.ORG\n', name: '\tŽofie \r\n 陳 ' });
  const { email, name } = JSON.parse(written(ending));
  assert.deepEqual([email, name], ['ada@example.org', 'Žofie 陳']);
});

test('only ASCII is lower-cased and trimmed', () => {
  const ending = new Host().run(welcome, { email: 'Äda@Example.org', name: '\u00a0Ada' });
  const { email, name } = JSON.parse(written(ending));
  assert.deepEqual([email, name], ['Äda@example.org', '\u00a0Ada']);
});

const rejections: Record<string, (string | Uint8Array | object)[]> = {
  'bad-payload': ['', '{', '[]', 'null', '7', Uint8Array.of(0xff), '"\\ud800"', { ...ADA, reminder: 1 }, { ...ADA, reminder: null }],
  'invalid-email': [{}, ...[null, 7, '', 'ada', '@b.c', 'a@@b.c', 'a@b', 'a@.b', 'a@b.'].map((email) => ({ ...ADA, email }))],
  'invalid-name': [{ email: 'a@b.c' }, { ...ADA, name: ' \t' }, { ...ADA, name: 7 }],
  'invalid-plan': [{ ...ADA, plan: 'gold' }, { ...ADA, plan: null }, { ...ADA, plan: ['pro'] }],
};
for (const [code, bodies] of Object.entries(rejections)) {
  for (const body of bodies) {
    test(`${typeof body === 'string' ? body : JSON.stringify(body)} is rejected: ${code}`, () => {
      assert.equal(rejection(new Host().run(welcome, body)), code);
    });
  }
}

test('what is wrong first is told', () => {
  assert.equal(rejection(new Host().run(welcome, { email: '', name: '', plan: '', reminder: '' })), 'invalid-email');
  assert.equal(rejection(new Host().run(welcome, { ...ADA, plan: '', reminder: '' })), 'invalid-plan');
});

test('a greylisted domain waits for the second try', () => {
  const host = new Host({ config: { greylist: 'example.net, example.org' } });
  const ending = host.run(welcome, ADA, { attempt: 1 });
  assert.ok(ending instanceof Retry);
  assert.equal(ending.code, 'greylisted');
  assert.equal(ending.message, 'example.org takes new senders at the second try');
  assert.equal(ending.after, 30_000);
  assert.ok(host.run(welcome, ADA, { attempt: 2 }) instanceof Payload);
});

test('a refused follow-up is a reject', () => {
  const ending = new Host({ denied: ['welcome'] }).run(welcome, ADA, { topic: 'welcome' });
  assert.ok(ending instanceof Reject);
  assert.equal(ending.code, 'enqueue-failed');
});

test('an unforeseen exception is a retry, and its stack is kept and logged', (t) => {
  t.mock.method(console, 'error', () => {}); // hides the stack that the handler logs
  const host = new Host();
  const ending = host.run(() => JSON.parse('{'), ADA);
  assert.ok(ending instanceof Retry);
  assert.equal(ending.code, 'exception');
  assert.match(ending.message, /^SyntaxError: /);
  assert.match(host.logs[0]?.fields[0]?.[1] ?? '', /SyntaxError: [^]+\n +at /);
  assert.match(ending.context ? new TextDecoder().decode(ending.context.data) : '', /^ +at /);
});

test('a request that was refused is no retry', () => {
  const refused = Object.assign(new Error('refused'), { payload: { tag: 'denied', val: 'https://example.org' } });
  const ending = new Host().run(() => { throw refused; }, ADA);
  assert.ok(ending instanceof Reject);
  assert.equal(ending.code, 'http-denied');
  assert.match(ending.message, /not granted: https:\/\/example.org/);
});

test('an async handler is awaited, and its requests are answered', async () => {
  const host = new Host({ fetch: async (request) => Response.json({ asked: request.url }) });
  const ending = await host.run(async () => (await fetch('https://api.example.org/rates')).json() as Promise<object>, ADA);
  assert.equal(written(ending), '{"asked":"https://api.example.org/rates"}');
});

test('a request that is not granted is no retry', async () => {
  const ending = await new Host().run(async () => void (await fetch('https://example.org/')), ADA);
  assert.equal(rejection(ending), 'http-denied');
});

test('a completed job leaves a state to the next one of its key', () => {
  const count = (job: Job) => {
    state.setJson((state.json() ?? 0) + 1);
    if (job.text() === 'fail') throw new Retry('late', 'after the fact');
  };
  const host = new Host({ stateLimit: 1 });
  const left = ['', 'fail', ''].map((body) => (host.run(count, body, { key: 'k' }), new TextDecoder().decode(host.state ?? new Uint8Array())));
  assert.deepEqual(left, ['1', '1', '2']);
  host.state = new TextEncoder().encode('9');
  assert.equal((host.run(count, '') as Reject).code, 'no-key');
  assert.equal((host.run(count, '', { key: 'k' }) as Reject).code, 'state-too-large');
  assert.deepEqual(host.state, new TextEncoder().encode('9'));
});

test('a follow-up waits for the job that runs, and is a batch of others', () => {
  const host = new Host();
  const fanOut = (job: Job) => {
    const report = enqueue({ topic: 'report', afterJobs: [job.id], afterFailed: 'run' });
    enqueue({ topic: 'row', batch: report });
  };
  host.run(fanOut, '', { id: 'first' });
  const none = { after: [], afterFailed: 'dead', batch: null, open: false };
  assert.deepEqual(
    host.enqueued.map(({ links }) => links),
    [{ ...none, after: ['first'], afterFailed: 'run' }, { ...none, batch: `01K1${'1'.padStart(22, '0')}` }],
  );
});
