import { checkpoint, handle, Retry, state } from './gristmill.ts';

export const handler = handle((job) => {
  if (job.text() === 'large') checkpoint('x'.repeat(2000));
  const seen = (state.json() ?? 0) + 1;
  state.setJson(seen);
  if (job.text() === 'fail' && job.attempt === 1) throw new Retry('later', 'after the state was set');
  return String(seen);
});
