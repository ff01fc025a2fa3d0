import { Reject, enqueue, handle } from 'gristmill-guest';

export const handler = handle((job) => {
  const { topic } = job;
  switch (job.text()) {
    case 'fan': {
      const batch = enqueue({ topic, body: 'gather', afterJobs: [job.id], afterFailed: 'run', open: true });
      const bad = enqueue({ topic, body: 'bad', batch });
      enqueue({ topic, body: 'good', afterJobs: [bad], batch });
      return batch;
    }
    case 'gather':
      return job.meta('predecessors');
    case 'wrong':
      return enqueue({ topic, batch: 'no id!' });
    default:
      throw new Reject('bad', 'as requested');
  }
});
