#!/usr/bin/env bash
# Installs what the tests need and runs them. Extra arguments go to cargo test: scripts/test.sh -- crash
#
#   scripts/test.sh            all tests: tens of minutes, compiling included
#   scripts/test.sh --quick    minutes on a warm tree: without the slow tests (each language's tools, a browser, dozens of crashes,
#                              generated requests) and with fewer random sequences
set -euo pipefail
cd "$(dirname "$0")/.."

# Two tests for each processor: many of them wait for a part of their time.
export RUST_TEST_THREADS="${RUST_TEST_THREADS:-$(($(nproc) * 2))}"

quick=false
if [ "${1-}" = --quick ]; then
    quick=true
    shift
fi
if ! $quick; then
    scripts/setup.sh --tests
    export PATH="$PWD/target/tools/bin:$PATH"
    # One cache for all projects that the tests make: the standard library of each target is compiled once.
    export GOCACHE="${GOCACHE:-$PWD/target/go}" ZIG_GLOBAL_CACHE_DIR="${ZIG_GLOBAL_CACHE_DIR:-$PWD/target/zig}"
    exec cargo test --workspace --no-fail-fast "$@"
fi

command -v redis-server >/dev/null || scripts/setup.sh --tests
export GRISTMILL_MODEL_SEQUENCES=20
# In two steps, since only the second skips tests. Both name the whole workspace, so that features, and with them all that is
# compiled, are those of the full run.
cargo test --workspace --lib --bins "$@"
slow=(adversary browser clients:: languages producers python crash killed hardship fairness properties reload store_servers cuts:: conformance::several behind_sentinels clustered)
cargo test --workspace --test it "$@" -- "${slow[@]/#/--skip=}"
