import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Host } from 'gristmill-guest/testing';
import { greet } from './handler.js';

test('it greets', () => {
  const ending = new Host().run(greet, { name: 'Ada' });
  assert.equal(new TextDecoder().decode(ending.data), '{"hello":"Ada"}');
});
