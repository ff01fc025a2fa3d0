import { spawnSync } from 'node:child_process';
import { Reject, Retry, checkpoint, config, enqueue, handle, isCancelled, log, now, progress, state } from 'gristmill-guest';

const SERVES = 'first';
let done = 0;

async function grind(grain: unknown): Promise<string> {
  await new Promise((ground) => setTimeout(ground, 1));
  throw new TypeError(`${grain} is no grain`);
}

export const handler = handle(async (job) => {
  done += 1;
  switch (job.json()) {
    case 'version':
      log.info('grinding', { flour: config.get('flour') });
      return SERVES;
    case 'speak':
      console.log('printed', { on: 'stdout' });
      console.error('to stderr');
      spawnSync('echo', ['shouted'], { stdio: 'inherit' });
      progress(0.5, 'half way');
      return job.meta('colour');
    case 'count':
      state.setJson(Number(state.json() ?? 0) + 1);
      return state.get();
    case 'resume':
      if (!job.checkpoint) {
        checkpoint('half');
        throw new Retry('later', 'after half of it');
      }
      return Buffer.from(job.checkpoint).toString() + job.attempt;
    case 'follow':
      return [enqueue({ topic: 'mill', json: 'version', priority: 'high', afterJobs: [job.id] }), job.deadline - now() <= 30_000];
    case 'nowhere':
      return enqueue({ topic: 'nowhere' });
    case 'crash':
      return grind('sand');
    case 'forgotten':
      grind('gravel');
      await new Promise((ground) => setTimeout(ground, 100));
      return 'not this';
    case 'never':
      return new Promise<string>(() => {});
    case 'ask':
      return (await fetch('http://127.0.0.1:1/')).text();
    case 'exit':
      process.exit(3);
    case 'loop':
      while (!isCancelled());
      return null;
    case 'pid':
      return [process.pid, done];
    default:
      throw new Reject('no', 'not here \ud800');
  }
});
