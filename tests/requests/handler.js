// Sends the request that its body names, such as `GET http://…`; the result is what came back.
import { handle } from 'gristmill-guest';

export const handler = handle(async (job) => {
  const [method, url] = job.text().split(' ');
  const more = { POST: { method, headers: [['x-kept', '1'], ['x-kept', '2']], body: 'hello' }, SLOW: { signal: AbortSignal.timeout(50) } };
  const answer = await fetch(url, more[method]);
  return `${answer.status} ${answer.headers.get('X-A') ?? ''} ${await answer.text()}`;
});
