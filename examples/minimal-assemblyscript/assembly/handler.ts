import { Ending, Job, Payload, complete, info, reject } from "gristmill-guest-assemblyscript";
import { Json, Type, object, quote } from "gristmill-guest-assemblyscript/json";

export function handle(job: Job): Ending {
  const body = Json.parse(job.body.data);
  if (body === null || body.type != Type.Object || !body.fields().has("name")) {
    return reject("bad-payload", "the body is no JSON with a name");
  }
  const name = body.fields().get("name").text();
  if (name === null) return reject("bad-payload", "the name is no text");
  info("greet", [["name", name]]);
  return complete(Payload.json(object([["hello", quote(name)]])));
}
