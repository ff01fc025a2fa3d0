import { checkpoint, Ending, Job, Payload, complete, retry, setState, state } from "./gristmill";

export function handle(job: Job): Ending {
  if (String.UTF8.decode(job.body.data.buffer) == "large") return checkpoint(new Uint8Array(2000)).failure!;
  const before = state();
  if (before.failure) return before.failure!;
  const seen = before.value ? I32.parseInt(String.UTF8.decode(before.value!.buffer)) + 1 : 1;
  const refused = setState(Uint8Array.wrap(String.UTF8.encode(seen.toString())));
  if (refused) return refused;
  if (String.UTF8.decode(job.body.data.buffer) == "fail" && job.attempt == 1) return retry("later", "after the state was set");
  return complete(Payload.text(seen.toString()));
}
