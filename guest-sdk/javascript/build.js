#!/usr/bin/env node
/**
 * Makes the component of the project in this folder: `build/NAME.wasm`, with NAME from its `package.json`.
 *
 * What the handler and its packages do not use is left out of it: only a handler that mentions `fetch` imports requests over HTTP.
 */
import { copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

/** The folder of this package. */
const PACKAGE = fileURLToPath(new URL('.', import.meta.url));
// A link in this package's sources, which `npm pack` leaves out: a packed one has a copy.
const CONTRACT = [join(PACKAGE, 'wit/job.wit'), join(PACKAGE, 'job.wit')].find(existsSync);

/** Interfaces of WASI. `componentize` makes a trap of all that is called `wasi`, so until it is done these have another name. */
const WASI = `
package host:random@0.2.0 { interface random { get-random-bytes: func(len: u64) -> list<u8>; } }
package host:io@0.2.0 { interface poll { resource pollable { block: func(); } } }
package host:clocks@0.2.0 {
  interface monotonic-clock {
    use host:io/poll@0.2.0.{pollable};
    subscribe-duration: func(when: u64) -> pollable;
  }
}`;
const { name, engine = 'quickjs' } = JSON.parse(readFileSync('package.json', 'utf8'));
const isQuickJs = engine === 'quickjs';
if (!isQuickJs && engine !== 'starlingmonkey') fail(`package.json: "engine" is "${engine}": allowed are "quickjs" and "starlingmonkey"`);
const handler = ['handler.ts', 'handler.js'].find(existsSync) ?? fail(`there is no handler.js and no handler.ts in ${process.cwd()}`);
const { imports, places } = await bundle();
try {
  await component(imports);
} catch (error) {
  fail(inSources(error, places));
}

function fail(problem) {
  console.error(problem);
  process.exit(1);
}

/** Makes one module of the handler and all that it imports: `build/handler.js`. Returns the interfaces that it imports, and where its lines come from. */
async function bundle() {
  let output;
  try {
    output = await build({
      entryPoints: [join(PACKAGE, 'component.js')],
      outfile: 'build/handler.js',
      bundle: true,
      format: 'esm',
      // Packages have files for a browser in place of those that need Node.js.
      platform: 'browser',
      // Chooses the runner's side and the engine's in package.json of this package.
      conditions: ['component', engine, 'module'],
      // Of these, the names that are mentioned.
      inject: isQuickJs ? [join(PACKAGE, 'web/globals.js')] : [],
      plugins: [{ name: 'gristmill', setup: resolved }],
      define: { 'process.env.NODE_ENV': '"production"', global: 'globalThis', HANDLER_FILE: JSON.stringify(handler) },
      // `web/loop.js` runs the promises that these become.
      supported: isQuickJs ? { 'async-await': false, 'async-generator': false, 'for-await': false } : {},
      sourcemap: 'external',
      sourcesContent: false,
      metafile: true,
      write: false,
      logLevel: 'warning',
      logOverride: { 'import-is-undefined': 'error' },
    });
  } catch {
    // esbuild has shown its errors.
    process.exit(1);
  }
  const [map, bundle] = output.outputFiles;
  mkdirSync('build', { recursive: true });
  const places = lines(JSON.parse(map.text));
  writeFileSync(bundle.path, `${bundle.text}\nglobalThis.gristmillLines = ${JSON.stringify(places)};\n`);
  const [{ imports }] = Object.values(output.metafile.outputs).filter((file) => file.entryPoint);
  return { imports: imports.map(({ path }) => path), places };
}

/** What an error of the handler's modules says, with the author's files and lines. */
function inSources({ message }, { files, lines }) {
  const table = lines.split('\n');
  return message.replace(/^.*module evaluation: /s, '').replace(/\/build\/handler\.js:(\d+):\d+/g, (whole, at) => {
    const [file, line] = (table[at - 1] ?? '').split(',')[0].split(':');
    return files[file] === undefined ? whole : `${files[file]}:${line}`;
  });
}

/** Where the project's handler is, and the runner's interfaces. Those that are not used are left out. */
function resolved({ onResolve }) {
  // esbuild's own advice, to bundle for Node.js, does not help here: a component is not Node.js. A package may bring something else in its place.
  onResolve({ filter: /^node:/ }, ({ path, importer }) =>
    importer.includes('node_modules') ? undefined : { errors: [{ text: `a component has no Node.js, and so no \`${path}\`` }] },
  );
  onResolve({ filter: /^#handler$/ }, () => ({ path: resolve(handler) }));
  onResolve({ filter: /^(gristmill|host):/ }, ({ path }) => ({ path, external: true, sideEffects: false }));
}

/** Makes the component of `build/handler.js`, which imports these interfaces besides what every handler may. */
async function component(imports) {
  const also = imports.filter((path) => /^host:|\/(http|state)@/.test(path)).map((path) => `import ${path};`);
  mkdirSync('build/wit/deps', { recursive: true });
  copyFileSync(CONTRACT, 'build/wit/deps/job.wit');
  writeFileSync('build/wit/deps/wasi.wit', `package host:all;\n${WASI}\n`);
  writeFileSync(
    'build/wit/world.wit',
    `package gristmill:build;\nworld built { include gristmill:job/job-handler-tested@0.1.0; ${also.join(' ')} }\n`,
  );
  writeFileSync(`build/${name}.wasm`, await (isQuickJs ? quickJs() : starlingMonkey()));
}

async function quickJs() {
  const { componentize } = await import('componentize-qjs');
  const given = { witPath: 'build/wit', jsPath: 'build/handler.js', jsSource: readFileSync('build/handler.js', 'utf8') };
  const made = await componentize({ ...given, sync: true, stubWasi: true, optSize: true });
  return renamed(made.component);
}

async function starlingMonkey() {
  const { componentize } = await import('@bytecodealliance/componentize-js');
  const made = await componentize({ sourcePath: 'build/handler.js', witPath: 'build/wit', worldName: 'built', disableFeatures: ['fetch-event'] });
  return made.component;
}

/** @param {Buffer} component */
function renamed(component) {
  for (const name of ['random/', 'clocks/', 'io/']) {
    for (let at = 0; (at = component.indexOf(`host:${name}`, at)) >= 0; ) component.write('wasi', at);
  }
  return component;
}

/** Of each line of the bundle, the file and line that it comes from, such as `0:12`; `,15:0:13` if another begins at column 15. */
function lines({ sources, mappings }) {
  const digits = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
  let [file, line] = [0, 1];
  const places = mappings.split(';').map((mapping) => {
    let [column, last, parts] = [0, '', []];
    for (const segment of mapping.split(',').filter(Boolean)) {
      const [columns, files = 0, lines = 0] = numbers(segment, digits);
      [column, file, line] = [column + columns, file + files, line + lines];
      const place = `${file}:${line}`;
      if (place !== last) parts.push(parts.length === 0 ? place : `${column + 1}:${place}`);
      last = place;
    }
    return parts.join(',');
  });
  return { files: sources.map(named), lines: places.join('\n') };
}

/** A source's path in the project. This package is where npm put it: in `node_modules`, or in a folder to which that has a link. */
function named(source) {
  const path = resolve('build', source);
  return path.startsWith(PACKAGE) ? `gristmill-guest/${relative(PACKAGE, path)}` : relative('', path);
}

/** The numbers of a segment of a source map, as its standard writes them. */
function numbers(segment, digits) {
  const found = [];
  let [value, shift] = [0, 0];
  for (const char of segment) {
    const digit = digits.indexOf(char);
    value += (digit & 31) << shift;
    shift += 5;
    if (digit < 32) {
      found.push(value & 1 ? -(value >> 1) : value >> 1);
      [value, shift] = [0, 0];
    }
  }
  return found;
}
