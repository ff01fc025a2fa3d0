import assert from "node:assert/strict";
import { test } from "node:test";

import { run } from "gristmill-guest-assemblyscript/testing";

const ADA = `{"email":"ada@example.org","name":"Ada"}`;
const signup = (fields) => `{"email":"ada@example.org","name":"Ada",${fields}}`;
const result = (name, plan, greeting) => `{"email":"ada@example.org","name":"${name}","plan":"${plan}","greeting":"${greeting}"}`;

test("a signup is greeted", () => {
  const did = run({ body: `{"email":" Ada@Example.ORG\\n","name":"\\tAda  King ","plan":"pro","x":[{}]}` });
  assert.equal(did.result, result("Ada King", "pro", "Welcome, Ada King!"));
  assert.equal(did.contentType, "application/json");
});

test("text stays as it is", () => {
  const did = run({ body: signup(`"name":"\\u017dofie 🦀\\ud83e\\udd80\\u2028\\/\\b\\u001F<"`) });
  const name = "Žofie 🦀🦀\u2028/\\b\\u001f<";
  assert.equal(did.result, result(name, "free", `Welcome, ${name}!`));
});

test("a reminder is asked for", () => {
  const [job, ...others] = run({ body: ADA }, { now: 1000 }).enqueued;
  assert.deepEqual(others, []);
  assert.deepEqual(job, {
    topic: "test",
    body: `{"email":"ada@example.org","name":"Ada","plan":"free","reminder":true}`,
    contentType: "application/json",
    metadata: 0,
    key: null,
    notBefore: 259_201_000,
    unique: "reminder:ada@example.org",
    priority: 2,
    uniqueWindow: null,
    afterJobs: [],
    runAfterFailed: false,
    batch: null,
    open: false,
  });
});

test("a reminder asks for none", () => {
  const did = run({ body: signup(`"reminder":true`) });
  assert.equal(did.result, result("Ada", "free", "Still there, Ada?"));
  assert.deepEqual(did.enqueued, []);
  assert.equal(did.logs[0].message, "reminder");
});

test("a reminder that is refused is rejected", () => {
  const { failure } = run({ body: ADA }, { enqueueError: "denied" });
  assert.equal(failure.code, "enqueue-failed");
  assert.equal(failure.rejected, true);
});

test("a reminder for which there is no topic yet is retried", () => {
  const { failure } = run({ body: ADA }, { enqueueError: "unknown-topic" });
  assert.deepEqual([failure.code, failure.rejected], ["enqueue-failed", false]);
});

test("the log keeps the address out", () => {
  const fields = [["domain", "example.org"], ["plan", "free"]];
  assert.deepEqual(run({ body: ADA }).logs, [{ level: 2, message: "signup", fields }]);
});

test("a greylisted domain is taken at the second try", () => {
  const grants = { config: { greylist: "example.net, example.org ," } };
  assert.deepEqual(run({ body: ADA }, grants).failure, {
    rejected: false,
    code: "greylisted",
    message: "example.org takes new senders at the second try",
    after: 30_000,
  });
  assert.equal(run({ body: ADA, attempt: 2 }, grants).result, result("Ada", "free", "Welcome, Ada!"));
});

for (const [body, code] of [
  ["", "bad-payload"],
  ["null", "bad-payload"],
  ["[]", "bad-payload"],
  [ADA + ADA, "bad-payload"],
  [Buffer.from([...Buffer.from(`{"email":"`), 0xff, ...Buffer.from(`"}`)]), "bad-payload"],
  [signup(`"x":"\\ud800"`), "bad-payload"],
  [signup(`"x":01`), "bad-payload"],
  [signup(`"x":[1,]`), "bad-payload"],
  ["[".repeat(100_000), "bad-payload"],
  [signup(`"reminder":null`), "bad-payload"],
  [signup(`"reminder":"true"`), "bad-payload"],
  ["{}", "invalid-email"],
  [`{"email":1,"name":"","plan":1}`, "invalid-email"],
  [signup(`"email":"ada"`), "invalid-email"],
  [signup(`"email":"@example.org"`), "invalid-email"],
  [signup(`"email":"a@b@example.org"`), "invalid-email"],
  [signup(`"email":"a@org"`), "invalid-email"],
  [signup(`"email":"a@.org"`), "invalid-email"],
  [signup(`"email":"a@example."`), "invalid-email"],
  [signup(`"name":[]`), "invalid-name"],
  [signup(`"name":" \\t","plan":1`), "invalid-name"],
  [signup(`"plan":null`), "invalid-plan"],
  [signup(`"plan":"Free","reminder":"x"`), "invalid-plan"],
]) {
  test(`rejected as ${code}: ${String(body).slice(0, 60)}`, () => {
    const did = run({ body });
    assert.equal(did.failure?.code, code);
    assert.equal(did.failure.rejected, true);
    assert.deepEqual([did.logs, did.enqueued], [[], []]);
  });
}
