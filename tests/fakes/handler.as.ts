// Calls all that the runner offers, for the tests of `gristmill-guest-assemblyscript/testing`.
import { Ending, Job, Payload, Request, checkpoint, complete, fuelRemaining, isCancelled, progress, secret, send } from "gristmill-guest-assemblyscript";

function text(bytes: Uint8Array | null): string {
  return bytes ? String.UTF8.decodeUnsafe(bytes.dataStart, bytes.length) : "none";
}

export function handle(job: Job): Ending {
  progress(5000, "half");
  progress(10_000);
  const saved = checkpoint(Uint8Array.wrap(String.UTF8.encode("here")));
  if (saved.failure) return saved.failure!;
  for (let i = 0; i < 2; i++) {
    const answer = send(new Request("GET", "https://api.example.org"));
    if (answer.failure) return answer.failure!;
  }
  const parts = [text(secret("key")), text(secret("other")), text(job.checkpoint), fuelRemaining().toString(), isCancelled().toString()];
  parts.push((job.deadline - job.dueAt).toString());
  return complete(Payload.text(parts.join(" ")));
}
