#!/usr/bin/env bash
# Feeds made-up inputs to everything that reads bytes from outside (tests/fuzz), for long.
#
#   scripts/fuzz.sh [INPUTS [TARGET]]     of each target whose test's name contains TARGET; ten million if it is not said.
#                                         Ctrl-C ends it
#
# An input that fails is written to target/fuzz/NAME. Mend the parser, and add the file to tests/fuzz/corpus/NAME, where every
# run of the tests tries it again.
set -euo pipefail
cd "$(dirname "$0")/.."

export GRISTMILL_FUZZ_INPUTS="${1:-10000000}"
# Only our own crates are optimised anew: the dependencies are those of the tests. Overflows are found as panics.
cargo test --quiet --config profile.dev.opt-level=2 --workspace --lib -- "made_up_${2-}" --nocapture --test-threads 2 |
    grep -a "inputs in\|input that failed\|SEED=\|FAILED" || true
exit "${PIPESTATUS[0]}"
