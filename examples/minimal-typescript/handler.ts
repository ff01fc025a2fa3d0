import { handle, log } from 'gristmill-guest';
import type { Job } from 'gristmill-guest';

export const handler = handle(greet);

export function greet(job: Job): { hello: string } {
  const { name } = job.json() as { name: string };
  log.info('greet', { name });
  return { hello: name };
}
