#!/usr/bin/env bash
# Sets up what the tests need and runs all of them. Extra arguments go to the test binaries: scripts/test.sh -- crash
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh --tests
export PATH="$PWD/target/tools/bin:$PATH"
cargo test --workspace --no-fail-fast "$@"
