import { handle, log } from 'gristmill-guest';

export const handler = handle(greet);

/** @param {import('gristmill-guest').Job} job */
export function greet(job) {
  const { name } = job.json();
  log.info('greet', { name });
  return { hello: name };
}
