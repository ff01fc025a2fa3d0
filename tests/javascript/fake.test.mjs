import assert from 'node:assert/strict';
import test from 'node:test';
import { state } from '../../guest-sdk/javascript/index.js';
import { Host } from '../../guest-sdk/javascript/testing.js';

test('the state that a handler finds is given as text or as bytes', () => {
  const count = () => state.set(String(Number(new TextDecoder().decode(state.get() ?? undefined)) + 1));
  for (const given of ['41', new TextEncoder().encode('41')]) {
    const host = new Host({ state: given });
    host.run(count, '', { key: 'k' });
    assert.equal(new TextDecoder().decode(host.state ?? undefined), '42');
  }
});
