import { Retry, handle, snooze } from 'gristmill-guest';
import { welcome } from './welcome.js';

const sleep = (millis) => new Promise((done) => setTimeout(done, millis));

function deep() {
  throw new Error('deep down');
}

export const handler = handle(async (job) => {
  if (!job.text().includes('"mode"')) return welcome(job);
  const { mode, url } = job.json();
  await sleep(1);
  if (mode === 'thrown') deep();
  if (mode === 'retry') throw new Retry('later', 'in a while', { after: 1500 });
  if (mode === 'snooze') return snooze(2000);
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode('a'));
  const parts = new ReadableStream({
    start(controller) {
      controller.enqueue('streamed');
      controller.close();
    },
  });
  const { value } = await parts.getReader().read();
  const answer = await fetch(url);
  return { digest: new Uint8Array(digest)[0], value, status: answer.status, text: await answer.text(), key: job.key, type: job.contentType };
});
