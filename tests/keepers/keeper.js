import { checkpoint, handle, progress, Retry, state } from 'gristmill-guest';

const deep = (calls) => deep(calls + 1) + 1;

export const handler = handle((job) => {
  if (job.text() === 'progress') return progress(0.5, 'half');
  if (job.text() === 'crash') throw new Error('on purpose');
  if (job.text() === 'deep') return String(deep(0));
  for (const all = []; job.text() === 'hoard'; ) all.push(new Uint8Array(1 << 20));
  if (job.text() === 'large') checkpoint('x'.repeat(2000));
  const seen = (state.json() ?? 0) + 1;
  state.setJson(seen);
  if (job.text() === 'fail' && job.attempt === 1) throw new Retry('later', 'after the state was set');
  return String(seen);
});
