#!/usr/bin/env node
/**
 * Which packages of npm work in a JavaScript handler: each is built into a component by itself, which says its size; then one
 * component runs all of them, and the results are compared with those of Node.js. Prints the table of docs/guides/handlers/javascript.md.
 *
 *   scripts/npm-packages.mjs [GRISTMILL]     the program, by default target/debug/gristmill; packages come from npm's registry
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

/** Package, version, what is imported, and an expression that uses it. */
const PACKAGES = [
  ['ajv', '8.17.1', "Ajv from 'ajv'", "(() => { const check = new Ajv().compile({ type: 'object', required: ['a'] }); return [check({ a: 1 }), check({}), check.errors[0].message]; })()"],
  ['big.js', '7.0.1', "Big from 'big.js'", "new Big('0.1').plus('0.2').toString()"],
  ['bignumber.js', '9.3.1', "BigNumber from 'bignumber.js'", "new BigNumber('1e30').plus(1).toFixed()"],
  ['change-case', '5.4.4', "{ camelCase } from 'change-case'", "camelCase('some text here')"],
  ['csv-parse', '6.1.0', "{ parse } from 'csv-parse/browser/esm/sync'", "parse('a,b\\n1,2\\n', { columns: true })"],
  ['date-fns', '4.1.0', "{ addDays, formatISO } from 'date-fns'", "formatISO(addDays(new Date(Date.UTC(2026, 0, 31, 12)), 1), { representation: 'date' })"],
  ['dayjs', '1.11.18', "dayjs from 'dayjs'", "dayjs('2026-02-01T00:00:00Z').add(1, 'month').toISOString()"],
  ['decimal.js', '10.6.0', "Decimal from 'decimal.js'", "new Decimal(2).sqrt().toString()"],
  ['escape-html', '1.0.3', "escape from 'escape-html'", "escape('<a & \"b\">')"],
  ['eventemitter3', '5.0.1', "EventEmitter from 'eventemitter3'", "(() => { const events = new EventEmitter(); const seen = []; events.on('x', (value) => seen.push(value)); events.emit('x', 1); return seen; })()"],
  ['fast-xml-parser', '5.2.5', "{ XMLParser } from 'fast-xml-parser'", "new XMLParser().parse('<a><b>1</b><b>2</b></a>')"],
  ['fflate', '0.8.2', "{ gzipSync, gunzipSync, strFromU8, strToU8 } from 'fflate'", "strFromU8(gunzipSync(gzipSync(strToU8('x'.repeat(1000))))).length"],
  ['handlebars', '4.7.8', "Handlebars from 'handlebars/dist/cjs/handlebars.js'", "Handlebars.compile('Hello {{#each names}}{{this}} {{/each}}')({ names: ['a', 'b'] })"],
  ['he', '1.2.0', "he from 'he'", "he.decode('&lt;&eacute;&#x1F600;')"],
  ['immer', '10.1.3', "{ produce } from 'immer'", "produce({ a: [1] }, (draft) => { draft.a.push(2); })"],
  ['jose', '6.1.0', "{ base64url, decodeJwt, UnsecuredJWT } from 'jose'", "decodeJwt(new UnsecuredJWT({ sub: 'ada' }).encode()).sub + base64url.encode('x')"],
  ['js-yaml', '4.1.0', "{ load, dump } from 'js-yaml'", "dump(load('a: [1, two]\\nb:\\n  - c: 2026-01-01\\n'))"],
  ['lodash-es', '4.17.21', "{ chunk, groupBy, merge } from 'lodash-es'", "[chunk([1, 2, 3], 2), groupBy([1.2, 1.8, 2.1], Math.floor), merge({ a: { b: 1 } }, { a: { c: 2 } })]"],
  ['luxon', '3.7.2', "{ DateTime } from 'luxon'", "DateTime.fromISO('2026-01-31T12:00:00Z').plus({ months: 1 }).toISODate()"],
  ['marked', '16.3.0', "{ marked } from 'marked'", "marked.parse('# Title\\n\\nSome *text* and `code`.')"],
  ['ms', '2.1.3', "ms from 'ms'", "[ms('2 days'), ms(60000)]"],
  ['mustache', '4.2.0', "Mustache from 'mustache'", "Mustache.render('{{#list}}<{{.}}>{{/list}}', { list: [1, 2] })"],
  ['nanoid', '5.1.6', "{ nanoid } from 'nanoid'", 'nanoid().length'],
  ['p-limit', '7.1.1', "pLimit from 'p-limit'", "await Promise.all([1, 2, 3].map((number) => limit(async () => number * 2)))", 'const limit = pLimit(2);'],
  ['papaparse', '5.5.3', "Papa from 'papaparse'", "Papa.parse('a,b\\n1,2', { header: true }).data"],
  ['qs', '6.14.0', "qs from 'qs'", "[qs.parse('a[b]=1&a[c]=2'), qs.stringify({ a: [1, 2] })]"],
  ['ramda', '0.31.3', "* as R from 'ramda'", "R.pipe(R.filter((number) => number > 1), R.map(R.multiply(2)), R.sum)([1, 2, 3])"],
  ['rxjs', '7.8.2', "{ delay, firstValueFrom, map, of, toArray } from 'rxjs'", "await firstValueFrom(of(1, 2, 3).pipe(map((number) => number * 2), delay(0), toArray()))"],
  ['semver', '7.7.2', "semver from 'semver'", "[semver.satisfies('1.2.3', '^1.0.0'), semver.inc('1.2.3', 'minor')]"],
  ['slugify', '1.6.6', "slugify from 'slugify'", "slugify('Ünïcode Text & more', { lower: true })"],
  ['superstruct', '2.0.2', "{ is, object, string } from 'superstruct'", "is({ name: 'a' }, object({ name: string() }))"],
  ['uuid', '13.0.0', "{ v4, v5, validate } from 'uuid'", "[validate(v4()), v5('ada', v5.URL)]"],
  ['validator', '13.15.15', "validator from 'validator'", "[validator.isEmail('ada@example.org'), validator.isURL('nonsense')]"],
  ['yaml', '2.8.1', "YAML from 'yaml'", "YAML.stringify(YAML.parse('a: [1, two]\\nb: { c: null }'))"],
  ['zod', '4.1.11', "* as z from 'zod'", "[z.object({ name: z.string().min(2) }).safeParse({ name: 'a' }).error.issues[0].code, z.email().parse('ada@example.org')]"],
];

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const gristmill = resolve(process.argv[2] ?? join(root, 'target/debug/gristmill'));
const project = join(root, 'out/npm-packages');
const GRANTS = '[handlers]\ncompile-timeout = "10m"\n[topics.packages]\nclock = true\nrandom = true\n[topics.packages.http]\nallow = ["*"]\n';

function run(program, given, options = {}) {
  return execFileSync(program, given, { cwd: project, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'], ...options });
}

rmSync(project, { recursive: true, force: true });
mkdirSync(dirname(project), { recursive: true });
run(gristmill, ['new', 'packages', '--lang', 'javascript', '--path', project], { cwd: root });
writeFileSync(join(project, 'gristmill.toml'), GRANTS);
run('npm', ['install', '--ignore-scripts', '--no-package-lock', '--no-audit', '--no-fund', ...PACKAGES.map(([name, version]) => `${name}@${version}`)]);
mkdirSync(join(project, 'uses'));

const rows = [];
for (const [at, [name, version, imported, expression, before = '']] of PACKAGES.entries()) {
  const file = `uses/${at}.js`;
  writeFileSync(join(project, file), `import ${imported};\n${before}\nexport default async () => (${expression});\n`);
  const row = { name, version, file, grants: '', size: '', verdict: '' };
  rows.push(row);
  try {
    build(`import use from './${file}';\nimport { handle, json } from 'gristmill-guest';\nexport const handler = handle(async () => json(await use()));\n`);
    row.size = statSync(join(project, 'build/packages.wasm')).size;
    const imports = readFileSync(join(project, 'build/wit/world.wit'), 'utf8');
    row.grants = ['http', 'random'].filter((grant) => imports.includes(`/${grant}@`)).join(', ');
  } catch (error) {
    row.verdict = `no: ${(`${error.stderr}`.match(/(Error|ERROR\]).*/) ?? ['?'])[0]}`;
  }
}

const works = rows.filter(({ verdict }) => !verdict);
build(`
${works.map(({ file }, at) => `import use${at} from './${file}';`).join('\n')}
import { handle, json } from 'gristmill-guest';
const attempt = async (use) => { try { return { value: await use() }; } catch (error) { return { error: String(error) }; } };
export const handler = handle(async () => json([${works.map((_, at) => `await attempt(use${at})`).join(', ')}]));
`);
const found = JSON.parse(run(gristmill, ['invoke', 'build/packages.wasm', '--topic', 'packages', '--data', '{}']));
for (const [at, row] of works.entries()) {
  const { default: use } = await import(pathToFileURL(join(project, row.file)));
  const expected = JSON.stringify({ value: await use() });
  row.verdict = found[at].error ? `no: ${found[at].error}` : JSON.stringify(found[at]) === expected ? 'yes' : `differs: ${JSON.stringify(found[at])}, not ${expected}`;
}

console.log('| package | works | component | grants |\n|---|---|---|---|');
for (const { name, version, size, grants, verdict } of rows) {
  console.log(`| ${name} ${version} | ${verdict} | ${size && `${(size / 1e6).toFixed(1)} MB`} | ${grants.replace(/\w+/g, '`$&`')} |`);
}
process.exitCode = rows.every(({ verdict }) => verdict === 'yes') ? 0 : 1;

function build(handler) {
  writeFileSync(join(project, 'handler.js'), handler);
  run('node_modules/.bin/gristmill-build', []);
}
