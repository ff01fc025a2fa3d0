// The SDK's implementation has what its declarations say. (`host.js` is not checked: the contract's modules have no types.)
import * as declared from 'gristmill-guest';
import * as declaredTesting from 'gristmill-guest/testing';
import * as made from './gristmill-guest/index.js';
// Checked for what it calls.
import './gristmill-guest/native/main.js';
import * as madeTesting from './gristmill-guest/testing.js';

made satisfies typeof declared;
madeTesting satisfies typeof declaredTesting;
// What the SDK's own files take of each other, and no handler.
type Undeclared = Exclude<keyof typeof made, keyof typeof declared | 'attempt' | 'describe'>;
true satisfies [Undeclared] extends [never] ? true : Undeclared;
