/** Makes timers wait. A handler with `import 'gristmill-guest/clock';` needs the grant `clock = true`. */
import { subscribeDuration } from 'host:clocks/monotonic-clock@0.2.0';
import { runner } from './loop.js';

runner.wait = (millis) => {
  const pollable = subscribeDuration(Math.ceil(millis) * 1_000_000);
  pollable.block();
  pollable[Symbol.dispose]();
};
