// The handler of signups: checks one, greets, and sees to a reminder three days later.

import { Answer, Ending, Job, NewJob, Payload, Priority, complete, config, enqueue, info, now, reject, retry } from "gristmill-guest-assemblyscript";
import { Json, Type, object, quote } from "gristmill-guest-assemblyscript/json";

const GREYLIST_DELAY: u64 = 30_000;
const REMINDER_DELAY: u64 = 3 * 24 * 3600_000;

/** What the body says, checked. */
class Signup {
  email: string = "";
  domain: string = "";
  name: string = "";
  plan: string = "free";
  reminder: bool = false;
}

export function handle(job: Job): Ending {
  const signup = new Signup();
  const refusal = parse(job.body.data, signup);
  if (refusal !== null) return refusal;
  const domain = signup.domain;
  if (job.attempt == 1 && isGreylisted(domain)) {
    return retry("greylisted", `${domain} takes new senders at the second try`).after(GREYLIST_DELAY);
  }
  if (signup.reminder) {
    info("reminder", [["domain", domain], ["plan", signup.plan]]);
    return welcome(signup, `Still there, ${signup.name}?`);
  }
  info("signup", [["domain", domain], ["plan", signup.plan]]);
  const refused = remind(job.topic, signup).failure;
  if (refused !== null) return refused;
  return welcome(signup, `Welcome, ${signup.name}!`);
}

/** Fills `signup`, or says why the body is none. */
function parse(body: Uint8Array, signup: Signup): Ending | null {
  const json = Json.parse(body);
  if (json === null || json.type != Type.Object) return reject("bad-payload", "the body is not a JSON object");
  const fields = json.fields();

  const email = text(fields, "email");
  if (email === null) return reject("invalid-email", "email is not a string");
  signup.email = lower(words(email, false));
  signup.domain = domainOf(signup.email);
  if (signup.domain == "") return reject("invalid-email", "email is not of the form name@domain.tld");

  const name = text(fields, "name");
  if (name === null) return reject("invalid-name", "name is not a string");
  signup.name = words(name, true);
  if (signup.name == "") return reject("invalid-name", "name is empty");

  if (fields.has("plan")) {
    const plan = text(fields, "plan");
    if (plan === null || (plan != "free" && plan != "pro")) return reject("invalid-plan", "plan is neither free nor pro");
    signup.plan = plan;
  }
  if (fields.has("reminder")) {
    const reminder = fields.get("reminder");
    if (reminder.type != Type.Bool) return reject("bad-payload", "reminder is neither true nor false");
    signup.reminder = reminder.isTrue();
  }
  return null;
}

function text(fields: Map<string, Json>, name: string): string | null {
  return fields.has(name) ? fields.get(name).text() : null;
}

/** The setting is a list of domains with commas between them. */
function isGreylisted(domain: string): bool {
  const list = config("greylist");
  if (list === null) return false;
  const entries = list.split(",");
  for (let i = 0; i < entries.length; i++) {
    if (words(entries[i], false) == domain) return true;
  }
  return false;
}

/** Asks for the reminder, once for each address. */
function remind(topic: string, signup: Signup): Answer {
  const body = object([
    ["email", quote(signup.email)],
    ["name", quote(signup.name)],
    ["plan", quote(signup.plan)],
    ["reminder", "true"],
  ]);
  const job = new NewJob(topic, Payload.json(body));
  job.notBefore = now() + REMINDER_DELAY;
  job.unique = "reminder:" + signup.email;
  job.priority = Priority.Low;
  return enqueue(job);
}

function welcome(signup: Signup, greeting: string): Ending {
  const result = object([
    ["email", quote(signup.email)],
    ["name", quote(signup.name)],
    ["plan", quote(signup.plan)],
    ["greeting", quote(greeting)],
  ]);
  return complete(Payload.json(result));
}

/** What is behind the only @ of an address; empty if it is no address. */
function domainOf(email: string): string {
  const at = email.indexOf("@");
  if (at <= 0) return "";
  const domain = email.substring(at + 1);
  const dotInside = domain.length > 2 && domain.substring(1, domain.length - 1).includes(".");
  return dotInside && !domain.includes("@") ? domain : "";
}

// The rules must not depend on a language's idea of white space and lower case: it is JSON's, and ASCII's.

function isSpace(c: i32): bool {
  return c == 0x20 || c == 0x09 || c == 0x0d || c == 0x0a;
}

/** The text without white space around it; if `single`, with single spaces within. */
function words(text: string, single: bool): string {
  const words: string[] = [];
  let begin = 0;
  let end = text.length;
  while (begin < end && isSpace(text.charCodeAt(begin))) begin++;
  while (end > begin && isSpace(text.charCodeAt(end - 1))) end--;
  if (!single) return text.substring(begin, end);
  for (let i = begin; i < end; i++) {
    if (!isSpace(text.charCodeAt(i))) continue;
    if (i > begin) words.push(text.substring(begin, i));
    begin = i + 1;
  }
  words.push(text.substring(begin, end));
  return words.join(" ");
}

function lower(text: string): string {
  const parts: string[] = [];
  let begin = 0;
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i);
    if (c < 0x41 || c > 0x5a) continue;
    parts.push(text.substring(begin, i));
    parts.push(String.fromCharCode(c + 0x20));
    begin = i + 1;
  }
  parts.push(text.substring(begin));
  return parts.join("");
}
