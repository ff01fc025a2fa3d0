#!/usr/bin/env bash
# Feeds made-up inputs to everything that reads bytes from outside (tests/fuzz), for long: an optimised build, many inputs.
#
#   scripts/fuzz.sh [INPUTS]     of each target; ten million if it is not said. Ctrl-C ends it
#
# An input that fails is written to target/fuzz/NAME. Mend the parser, and add the file to tests/fuzz/corpus/NAME, where every
# run of the tests tries it again.
set -euo pipefail
cd "$(dirname "$0")/.."

export GRISTMILL_FUZZ_INPUTS="${1:-10000000}"
# Overflows are found as panics; the products of these builds are not shipped.
export CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS=true CARGO_PROFILE_RELEASE_LTO=off
for crate in core config store sandbox server; do
    cargo test --quiet --release -p "gristmill-$crate" --lib -- made_up_ --nocapture --test-threads 2 | grep -a "inputs in\|input that failed\|SEED=\|FAILED" || true
    [ "${PIPESTATUS[0]}" -eq 0 ] || exit 1
done
