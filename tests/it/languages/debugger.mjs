/**
 * Attaches to the Node.js of `gristmill replay --native --debug` as a debugger does: steps into the handler, reads its job, and lets it go on. The arguments
 * are the command. Prints where it stopped, what the command had said by then and at its end, and its exit code.
 */
import { spawn } from 'node:child_process';

const [program, ...given] = process.argv.slice(2);
const env = { ...process.env, NODE_OPTIONS: '--inspect=127.0.0.1:0' };
const replay = spawn(program, given, { env, stdio: ['ignore', 'ignore', 'pipe'] });
process.on('exit', () => replay.kill());
const ended = new Promise((end) => replay.on('close', end));
let said = '';
const host = await new Promise((found, failed) => {
  replay.stderr.on('data', (part) => {
    said += part;
    const host = said.match(/attach a debugger: `node inspect ([^`]+)`/);
    if (host) found(host[1]);
  });
  ended.then(() => failed(new Error(`it ended before a debugger attached:\n${said}`)));
});
const before = said;

const [{ webSocketDebuggerUrl }] = await (await fetch(`http://${host}/json/list`)).json();
const socket = new WebSocket(webSocketDebuggerUrl);
await new Promise((open) => { socket.onopen = open; });
const answers = new Map();
const urls = new Map();
const stops = [];
let stopped = () => {};
socket.onmessage = ({ data }) => {
  const { id, method, params, result } = JSON.parse(data);
  answers.get(id)?.(result);
  if (method === 'Debugger.scriptParsed') urls.set(params.scriptId, params.url);
  if (method !== 'Debugger.paused') return;
  stops.push(params.callFrames[0]);
  stopped();
};
const ask = (method, params = {}) => {
  const id = answers.size + 1;
  const answer = new Promise((answered) => answers.set(id, answered));
  socket.send(JSON.stringify({ id, method, params }));
  return answer;
};
const stop = async (method) => {
  const count = stops.length;
  const another = new Promise((come) => { stopped = come; });
  await ask(method);
  if (stops.length === count) await another;
  return stops.at(-1);
};

await ask('Runtime.enable');
await ask('Debugger.enable');
await stop('Runtime.runIfWaitingForDebugger');
await stop('Debugger.stepInto');
const { callFrameId } = await stop('Debugger.stepInto');
const job = await ask('Debugger.evaluateOnCallFrame', { callFrameId, expression: 'job.id' });
const places = [];
for (const { location: { scriptId, lineNumber } } of stops) {
  const { scriptSource } = await ask('Debugger.getScriptSource', { scriptId });
  places.push([urls.get(scriptId).split('/').at(-1), scriptSource.split('\n')[lineNumber].trim()]);
}
await ask('Debugger.resume');
socket.close();
const code = await ended;
console.log(JSON.stringify({ places, job: job.result.value, before, said, code }));
