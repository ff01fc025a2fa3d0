import assert from "node:assert/strict";
import { test } from "node:test";

import { run } from "gristmill-guest-assemblyscript/testing";

const answers = [{ status: 200 }, { status: 201 }];

test("the fake grants, is asked, and remembers", () => {
  const grants = { secrets: { key: "s3cret" }, fuel: 7, cancelled: true, answers };
  const did = run({ body: "", checkpoint: "there" }, grants);
  assert.equal(did.result, "s3cret none there 7 true 30000");
  assert.deepEqual(did.progress, [{ basisPoints: 5000, note: "half" }, { basisPoints: 10_000, note: null }]);
  assert.deepEqual([did.checkpoint, did.requests.length], ["here", 2]);
  assert.equal(run({ body: "" }, { answers }).result, "none none none 1000000000000 false 30000");
});

for (const [grants, code, rejected] of [
  [{ checkpointError: "too-large" }, "checkpoint-failed", true],
  [{ checkpointError: "unavailable" }, "checkpoint-failed", false],
  [{}, "http-denied", true],
  [{ answers: [{}, { error: "invalid" }] }, "http-invalid", true],
  [{ answers: [{}, { error: "timeout" }] }, "http-timeout", false],
  [{ answers: [{}], answer: { error: "too-large" } }, "http-too-large", true],
  [{ answer: { error: "too-many" } }, "http-too-many", true],
  [{ answer: { error: "unreachable" } }, "http-unreachable", false],
]) {
  test(`the fake refuses: ${JSON.stringify(grants)}`, () => {
    const { failure } = run({ body: "" }, grants);
    assert.deepEqual([failure.code, failure.rejected], [code, rejected]);
  });
}
