// What the tests of all languages ask for, by the body: a batch of jobs, a request over HTTP, the state of a key and bad ends.
import {
  checkpoint, complete, Ending, enqueue, Job, NewJob, Payload, progress, reject, Request, retry, send, setState, state,
} from "gristmill-guest-assemblyscript";

export function handle(job: Job): Ending {
  const body = job.text();
  if (body == "fan") return fan(job);
  if (body == "gather") return complete(Payload.text(job.meta("predecessors")!));
  if (body == "wrong") return enqueue(linked(job, "", [], "no id!")).failure!;
  if (body == "bad" || body == "good") return reject("bad", "as requested");
  return body.includes(" ") ? ask(body) : count(job, body);
}

function linked(job: Job, body: string, after: string[], batch: string | null): NewJob {
  const made = new NewJob(job.topic, Payload.text(body));
  made.afterJobs = after;
  made.batch = batch;
  return made;
}

function fan(job: Job): Ending {
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

// Sends the request that the body names, such as `GET http://…`; the result is what came back.
function ask(body: string): Ending {
  const space = body.indexOf(" ");
  const request = new Request(body.slice(0, space), body.slice(space + 1));
  request.redirects = 1;
  if (request.method == "POST") {
    request.headers = [["x-kept", "1"], ["x-kept", "2"]];
    request.body = Uint8Array.wrap(String.UTF8.encode("hello"));
    request.timeout = 20_000;
  }
  if (request.method == "SLOW") {
    request.method = "GET";
    request.timeout = 50;
  }
  const answer = send(request);
  if (answer.failure !== null) return answer.failure!;
  const header = answer.header("x-a");
  return complete(Payload.text(`${answer.status} ${header === null ? "" : header} ${answer.text()}`));
}

function deep(calls: i32): i32 {
  return deep(calls + 1) + 1;
}

// Counts the jobs of a key in its state.
function count(job: Job, body: string): Ending {
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
