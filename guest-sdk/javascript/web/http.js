/** Sends the requests of `fetch.js`: by the contract's `http`. Outside of a component `native/host.js` is in its place. */
export { send } from 'gristmill:job/http@0.1.0';
