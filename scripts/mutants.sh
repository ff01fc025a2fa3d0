#!/usr/bin/env bash
# Proves that the tests of the stores find faults: breaks the rules of tests/store/mutants/*.toml one at a time, and demands that
# the conformance suite or the model notices each. Takes some minutes. Arguments select rules:
#
#   scripts/mutants.sh [redis|embedded] [part of a rule]
set -euo pipefail
cd "$(dirname "$0")/.."

cargo build --quiet --package gristmill-store-tests --all-features --example mutants
program=$(cargo test --no-run --package gristmill-store-tests --all-features --test it 2>&1 | sed -n 's/.*(\(.*\))$/\1/p' | tail -n 1)
stores=(redis embedded)
[ $# -eq 0 ] || stores=("$1")
failed=0
for store in "${stores[@]}"; do
    target/debug/examples/mutants "$program" "$store" "${2:-}" || failed=1
done
exit $failed
