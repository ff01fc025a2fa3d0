import { Ending, Job, NewJob, Payload, complete, enqueue, reject, retry } from "./gristmill";

function linked(job: Job, body: string, after: string[], batch: string | null): NewJob {
  const made = new NewJob(job.topic, Payload.text(body));
  made.afterJobs = after;
  made.batch = batch;
  return made;
}

export function handle(job: Job): Ending {
  const request = String.UTF8.decode(job.body.data.buffer);
  if (request == "fan") {
    const first = linked(job, "gather", [job.id], null);
    first.runAfterFailed = true;
    first.open = true;
    const batch = enqueue(first);
    if (batch.refusal) return retry("enqueue-failed", batch.refusal!);
    const bad = enqueue(linked(job, "bad", [], batch.id));
    if (bad.refusal) return retry("enqueue-failed", bad.refusal!);
    const good = enqueue(linked(job, "good", [bad.id], batch.id));
    if (good.refusal) return retry("enqueue-failed", good.refusal!);
    return complete(Payload.text(batch.id));
  }
  if (request == "gather") return complete(Payload.text(job.meta("predecessors")!));
  if (request == "wrong") return retry("enqueue-failed", enqueue(linked(job, "", [], "no id!")).refusal!);
  return reject("bad", "as requested");
}
