#!/usr/bin/env python3
"""How long a user of each language waits: PROGRAM is a gristmill, each LANGUAGE one of `gristmill new` (default: all).

Prints, in seconds, `new` → first job with empty caches (of npm, pip, cargo, go, zig) and its parts, and the fewest, the middle and the most from a
save to the new version's serving under `gristmill dev`, and in a row of its own under `gristmill dev --native`. Needs the tools of the languages:
`scripts/setup.sh --tests` puts some into target/tools/bin.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SAVES = 7
HANDLERS = {
    "c": "handler.c",
    "assemblyscript": "assembly/handler.ts",
    "javascript": "handler.js",
    "typescript": "handler.ts",
    "zig": "handler.zig",
    "go": "handler.go",
    "python": "handler.py",
    "rust": "src/lib.rs",
}
NATIVE = ("javascript", "typescript", "python")
CACHES = ("npm_config_cache", "PIP_CACHE_DIR", "GOCACHE", "GOMODCACHE", "ZIG_GLOBAL_CACHE_DIR", "CARGO_HOME")
SIGNUP = '{"email": "ada@example.org", "name": "Ada"}'


def main(program, *languages):
    program = os.path.abspath(program)
    print(f"{'':16} {'new':>6} {'build':>6} {'ready':>6} {'push':>6} {'whole':>6}   save → served: fewest, middle, most")
    for language in languages or HANDLERS:
        with tempfile.TemporaryDirectory(prefix="gristmill-") as folder:
            steps = first_job(program, language, Path(folder))
            first = " ".join(f"{seconds:6.2f}" for seconds in (*steps, sum(steps)))
            show(language, first, edits(program, language, Path(folder) / "welcome"))
            if language in NATIVE:
                show("  --native", " " * len(first), edits(program, language, Path(folder) / "welcome", "--native"))


def show(row, first, saves):
    print(f"{row:16} {first}   {min(saves):6.2f} {statistics.median(saves):6.2f} {max(saves):6.2f}", flush=True)


def first_job(program, language, folder):
    """The seconds of each step from nothing."""
    project = folder / "welcome"
    steps = [timed(lambda: run(program, "new", "welcome", "--lang", language, cwd=folder))]
    steps.append(timed(lambda: run(program, "build", "--test", cwd=project, env=os.environ | empty_caches(folder))))
    began = time.monotonic()
    runner = subprocess.Popen([program, "run"], cwd=project, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    try:
        if not any("ready for jobs" in line for line in runner.stderr):
            sys.exit(f"{language}: the runner has ended")
        steps.append(time.monotonic() - began)
        steps.append(timed(lambda: run(program, "push", "welcome", "--data", SIGNUP, "--wait", cwd=project)))
    finally:
        runner.terminate()
        runner.communicate()
    return steps


def empty_caches(folder):
    caches = {name: str(folder / "caches" / name) for name in CACHES}
    # Cargo's own settings are no cache.
    settings = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo")) / "config.toml"
    os.makedirs(caches["CARGO_HOME"])
    if settings.exists():
        shutil.copy(settings, caches["CARGO_HOME"])
    return caches


def edits(program, language, project, *options):
    """The seconds from each of some saves until the new version served. The caches are the user's own."""
    command = [program, "dev", "--json", "--no-run", *options]
    dev = subprocess.Popen(command, cwd=project, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    handler = project / HANDLERS[language]
    text = handler.read_text()
    try:
        served(dev)
        seconds = []
        for _ in range(SAVES):
            # As a person does it: not while the one before is served.
            time.sleep(1)
            began = time.monotonic()
            # A text that no run before had, as its component may be compiled already.
            handler.write_text(text.replace("Welcome, ", f"Welcome {time.time_ns()}, "))
            served(dev)
            seconds.append(time.monotonic() - began)
        # The first fills the caches.
        return seconds[1:]
    finally:
        dev.terminate()
        dev.communicate()
        handler.write_text(text)


def served(dev):
    for line in dev.stdout:
        if json.loads(line)["kind"] in ("build", "native"):
            return
        sys.exit(line)
    sys.exit("dev has ended")


def timed(step):
    began = time.monotonic()
    step()
    return time.monotonic() - began


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stdout}{done.stderr}")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(*sys.argv[1:])
