#!/usr/bin/env bash
# Proves that the tests of the stores find faults: breaks the rules of tests/mutants/*.toml one at a time in a copy of the
# sources, and demands that the conformance suite or the model fails each time. A name narrows it down:
#
#   scripts/mutants.sh [redis|embedded] [part of a rule]
set -euo pipefail
cd "$(dirname "$0")/.."

# Beside the usual target folder, so that what is built stays for the next time.
place=$PWD/target/mutants
rm -rf "$place/tree"
mkdir -p "$place/tree"
git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents --target-directory="$place/tree"

cargo build --quiet --package gristmill-tests --example mutants
program=$PWD/target/debug/examples/mutants
export CARGO_TARGET_DIR=$place/target
stores=(redis embedded)
[ $# -eq 0 ] || stores=("$1")
for store in "${stores[@]}"; do "$program" "$place/tree" "$store" "${2:-}"; done
