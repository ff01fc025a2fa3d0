#!/usr/bin/env node
// Runs the binary that npm has installed for this platform.
const { spawn } = require('node:child_process');
const { constants } = require('node:os');

const platform = `@gristmill/${process.platform}-${process.arch}`;
let program;
try {
  program = require.resolve(`${platform}/bin/gristmill`);
} catch {
  console.error(`error: there is no binary of gristmill for this platform, or npm was told to leave out optional dependencies: ${platform}`);
  process.exit(1);
}
const child = spawn(program, process.argv.slice(2), { stdio: 'inherit' });
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
child.on('error', (error) => {
  console.error(`error: failed to run ${program}: ${error.message}`);
  process.exit(1);
});
child.on('exit', (code, signal) => process.exit(signal ? 128 + constants.signals[signal] : code));
