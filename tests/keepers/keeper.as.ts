import { checkpoint, Ending, Job, Payload, complete, progress, retry, setState, state } from "gristmill-guest-assemblyscript";

function deep(calls: i32): i32 {
  return deep(calls + 1) + 1;
}

export function handle(job: Job): Ending {
  const body = job.text();
  if (body == "progress") {
    progress(5000, "half");
    return complete();
  }
  if (body == "crash") throw new Error("on purpose");
  if (body == "deep") return complete(Payload.text(deep(0).toString()));
  for (const all = new Array<Uint8Array>(); body == "hoard"; ) all.push(new Uint8Array(1 << 20));
  if (body == "large") return checkpoint(new Uint8Array(2000)).failure!;
  const before = state();
  if (before.failure) return before.failure!;
  const seen = before.value ? I32.parseInt(String.UTF8.decode(before.value!.buffer)) + 1 : 1;
  const refused = setState(Uint8Array.wrap(String.UTF8.encode(seen.toString())));
  if (refused) return refused;
  if (body == "fail" && job.attempt == 1) return retry("later", "after the state was set");
  return complete(Payload.text(seen.toString()));
}
