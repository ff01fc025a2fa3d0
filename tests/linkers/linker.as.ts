import { Ending, Job, NewJob, Payload, complete, enqueue, reject } from "gristmill-guest-assemblyscript";

function linked(job: Job, body: string, after: string[], batch: string | null): NewJob {
  const made = new NewJob(job.topic, Payload.text(body));
  made.afterJobs = after;
  made.batch = batch;
  return made;
}

export function handle(job: Job): Ending {
  const request = job.text();
  if (request == "fan") {
    const first = linked(job, "gather", [job.id], null);
    first.runAfterFailed = true;
    first.open = true;
    const batch = enqueue(first);
    if (batch.failure) return batch.failure!;
    const bad = enqueue(linked(job, "bad", [], batch.id));
    if (bad.failure) return bad.failure!;
    const good = enqueue(linked(job, "good", [bad.id], batch.id));
    if (good.failure) return good.failure!;
    return complete(Payload.text(batch.id));
  }
  if (request == "gather") return complete(Payload.text(job.meta("predecessors")!));
  if (request == "wrong") return enqueue(linked(job, "", [], "no id!")).failure!;
  return reject("bad", "as requested");
}
