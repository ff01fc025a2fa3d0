import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Payload } from 'gristmill-guest';
import { Host } from 'gristmill-guest/testing';
import { greet } from './handler.ts';

test('it greets', () => {
  const ending = new Host().run(greet, { name: 'Ada' });
  assert.ok(ending instanceof Payload);
  assert.equal(new TextDecoder().decode(ending.data), '{"hello":"Ada"}');
});
