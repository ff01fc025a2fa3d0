import assert from "node:assert/strict";
import { test } from "node:test";

import { run } from "./host.mjs";

test("it greets", () => {
  assert.equal(run({ body: `{"name": "Ada"}` }).result, `{"hello":"Ada"}`);
});
