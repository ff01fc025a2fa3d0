// Sends the request that its body names, such as `GET http://…`; the result is what came back.
import { Ending, Job, Payload, Request, complete, send } from "gristmill-guest-assemblyscript";

export function handle(job: Job): Ending {
  const body = job.text();
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
