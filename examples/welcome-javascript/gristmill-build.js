/** Makes one module of the handler and all that it imports: `build/handler.js`. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { buildSync } from 'esbuild';

let output;
try {
  output = buildSync({
    entryPoints: ['gristmill-component.js'],
    outfile: 'build/handler.js',
    bundle: true,
    format: 'esm',
    platform: 'neutral',
    mainFields: ['module', 'main'],
    // Chooses the runner's side of `#host`, in package.json.
    conditions: ['component'],
    external: ['gristmill:*'],
    sourcemap: 'external',
    sourcesContent: false,
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
writeFileSync(bundle.path, `${bundle.text}\nglobalThis.gristmillLines = ${JSON.stringify(lines(JSON.parse(map.text)))};\n`);

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
  return { files: sources.map((path) => path.replace(/^\.\.\//, '')), lines: places.join('\n') };
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
