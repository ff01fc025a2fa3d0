#!/usr/bin/env node
// Measures how soon the page can be seen: first paint, an overview of 1,000 topics, a list of a topic with 1,000,000 jobs. Prints the medians of
// eleven loads each, in milliseconds from the beginning of the navigation, on a new SQLite store below out/paint.
// Needs what `scripts/setup.sh --tests` installs. GRISTMILL names another binary than target/release/gristmill; JOBS another number of jobs.
import { spawn } from 'node:child_process'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { createInterface } from 'node:readline'

const ROUNDS = 11
const TOPICS = 1000
const JOBS = Number(process.env.JOBS ?? 1_000_000)
const AT_ONCE = 1000
const out = 'out/paint'
rmSync(out, { recursive: true, force: true })
mkdirSync(`${out}/handlers`, { recursive: true })
const topics = Array.from({ length: TOPICS }, (_, n) => `[topics.topic-${n}]\n`).join('')
writeFileSync(`${out}/gristmill.toml`, `[http]\nlisten = "127.0.0.1:0"\n[limits]\nstored-bytes = "1024GiB"\n${topics}[topics.many]\n`)

const children = []
process.on('exit', () => children.forEach((child) => child.kill()))
/** Starts a program; resolves with what the pattern finds in its output. */
function start(program, args, pattern, options = {}) {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'], ...options })
  children.push(child)
  return new Promise((resolve, reject) => {
    child.on('exit', (code) => reject(new Error(`${program} has ended with ${code}`)))
    for (const stream of [child.stdout, child.stderr]) {
      createInterface({ input: stream }).on('line', (line) => {
        const found = pattern.exec(line)
        if (found) resolve(found[1])
      })
    }
  })
}

async function post(url, document) {
  const response = await fetch(url, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(document) })
  const answer = await response.json()
  if (!response.ok) throw new Error(`${url}: ${JSON.stringify(answer)}`)
  return answer
}

const program = process.env.GRISTMILL ?? 'target/release/gristmill'
const page = await start(program, ['run', '--manifest', `${out}/gristmill.toml`], /the page is (http:\/\/[^ ]*)/)
const driver = `http://127.0.0.1:${await start('chromedriver', ['--port=0'], /started successfully on port (\d+)/)}`

const jobs = `${page}v1/tenants/default/topics/many/jobs`
for (let pushed = 0; pushed < JOBS; pushed += AT_ONCE) {
  await post(jobs, { jobs: Array.from({ length: AT_ONCE }, (_, n) => ({ body: { n: pushed + n } })) })
}

const args = ['--headless', '--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking', '--disable-sync']
const capabilities = { alwaysMatch: { 'goog:chromeOptions': { args } } }
const session = `${driver}/session/${(await post(`${driver}/session`, { capabilities })).value.sessionId}`
// When the rows are there, and painted.
const watch = `new MutationObserver((_, watcher) => {
  if (!document.querySelector('main[aria-busy=false] tbody tr')) return
  watcher.disconnect()
  requestAnimationFrame(() => setTimeout(() => (window.shownAt = performance.now())))
}).observe(document, { childList: true, subtree: true, attributes: true })`
await post(`${session}/goog/cdp/execute`, { cmd: 'Page.addScriptToEvaluateOnNewDocument', params: { source: watch } })
const run = async (script) => (await post(`${session}/execute/sync`, { script, args: [] })).value

async function measure(place) {
  const found = []
  for (let round = 0; round < ROUNDS; round += 1) {
    await post(`${session}/url`, { url: 'about:blank' })
    await post(`${session}/url`, { url: `${page}#${place}` })
    let at = null
    while (!at) at = await run('return window.shownAt && [performance.getEntriesByName("first-contentful-paint")[0]?.startTime, window.shownAt]')
    found.push(at)
  }
  const median = (n) => Math.round(found.map((at) => at[n]).sort((a, b) => a - b)[Math.floor(ROUNDS / 2)])
  return [median(0), median(1)]
}

const [first, overview] = await measure('/t/default')
const [, list] = await measure('/t/default/topics/many/ready')
console.log(`first paint ${first} ms; overview of ${TOPICS} topics ${overview} ms; list of a topic with ${JOBS} jobs ${list} ms`)
await fetch(session, { method: 'DELETE' })
process.exit(0)
