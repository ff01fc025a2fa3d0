#!/usr/bin/env bash
# Checks the list of dependencies against deny.toml: licences, sources, versions; with --advisories also known weaknesses, with
# cargo-deny, which takes minutes to compile and fetches the RustSec database.
#
#   scripts/deny.sh                  what .ci/run calls; fetches nothing that the lock file does not name
#   scripts/deny.sh --advisories     all checks, as before a release
set -euo pipefail
cd "$(dirname "$0")/.."

version=0.20.2
tools="$PWD/target/tools"
PATH="$tools/bin:$PATH"

case "${1-}" in
    "") exec scripts/licences.py ;;
    --advisories) ;;
    *) echo "usage: scripts/deny.sh [--advisories]" >&2; exit 2 ;;
esac

# The development profile compiles in a third of the time, and the check takes a second either way.
if [ "$(cargo-deny --version 2>/dev/null)" != "cargo-deny $version" ]; then
    echo "deny: installing cargo-deny $version"
    cargo install --quiet --locked --version "$version" --no-default-features --profile dev --root "$tools" cargo-deny
fi
# The checks read what all platforms would take, and this one has downloaded only its own.
cargo fetch --quiet --locked
cargo deny check all
