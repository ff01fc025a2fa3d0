import assert from "node:assert/strict";
import { test } from "node:test";

import { run } from "gristmill-guest-assemblyscript/testing";

test("it greets", () => {
  assert.equal(run({ body: `{"name": "Ada"}` }).result, `{"hello":"Ada"}`);
});
