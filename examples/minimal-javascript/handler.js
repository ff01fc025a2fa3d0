import { handle, log } from './gristmill.js';

export const handler = handle(greet);

/** @param {import('./gristmill.js').Job} job */
export function greet(job) {
  const { name } = job.json();
  log.info('greet', { attempt: job.attempt });
  return { hello: name };
}
