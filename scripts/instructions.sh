#!/usr/bin/env bash
# Counts the instructions of the parts of a job's path (tests/benches/instructions.rs) and compares them with the baseline of
# tests/benches/instructions.txt. Counts hardly jitter, even on a busy machine.
#
#   scripts/instructions.sh                  prints the table
#   scripts/instructions.sh --check          and fails if a part takes over 5 % more than its baseline
#   scripts/instructions.sh --save           saves the counts as the new baseline
#   scripts/instructions.sh --program FILE   counts in a program built before, to compare two
#
# Needs valgrind. The first build takes minutes: it links the program as for a release.
set -euo pipefail
cd "$(dirname "$0")/.."

baseline=tests/benches/instructions.txt
tolerance=5
# How often a part runs: start-up and warming up are in both counts, so the difference excludes them.
few=200
many=1200

fail() {
    echo "instructions: $1" >&2
    exit 2
}

build() {
    cargo bench --bench instructions --no-run 2>&1 | tee /dev/stderr | sed -n 's/.*(\(.*\))$/\1/p' | tail -n 1
}

# A string instruction counts once for every byte, so clearing 64 KiB would outweigh all the rest: make glibc use loops.
export GLIBC_TUNABLES=glibc.cpu.x86_rep_stosb_threshold=0x10000000:glibc.cpu.x86_rep_movsb_threshold=0x10000000
# Backtraces would count, too.
export RUST_BACKTRACE=0

# Instructions of one run: callgrind prints them on a separate line, with commas.
count() {
    local said
    said=$(valgrind --tool=callgrind --callgrind-out-file=/dev/null "$program" "$@" 2>&1) || fail "\`$*\` failed: $said"
    sed -n 's/.*I *refs: *//p' <<<"$said" | tr -d ,
}

per_time() {
    local part=$1 low high
    low=$(count "$part" $few)
    high=$(count "$part" $many)
    echo $(((high - low) / (many - few)))
}

# Reads lines `part count`, prints a table. Exit code 1: a part exceeds its baseline.
compare() {
    awk -v tolerance=$tolerance '
        NR == FNR { if ($1 !~ /^#/) before[$1] = $2; next }
        FNR == 1 { printf "%-24s %14s %14s %8s\n", "part", "instructions", "baseline", "ratio" }
        !($1 in before) { printf "%-24s %14d %14s %8s\n", $1, $2, "-", "new"; next }
        {
            ratio = $2 / before[$1]
            dearer = ratio > 1 + tolerance / 100
            cheaper = ratio < 1 - tolerance / 100
            worse = worse || dearer
            note = dearer ? "  <-- DEARER" : cheaper ? "  <-- cheaper: save it" : ""
            printf "%-24s %14d %14d %8.3f%s\n", $1, $2, before[$1], ratio, note
        }
        END { exit worse }
    ' "$baseline" -
}

command -v valgrind >/dev/null || fail "there is no valgrind: install it (apt-get install valgrind)"
mode=show
program=
case "${1-}" in
    "") ;;
    --check) mode=check ;;
    --save) mode=save ;;
    --program) program=${2:?a file} ;;
    *) fail "\`$1\` is no option; there are --check, --save and --program FILE" ;;
esac
[ -n "$program" ] || program=$(build)
[ -x "$program" ] || fail "the bench was not built"

counted=$("$program" --bench | while read -r part; do echo "$part $(per_time "$part")"; done)
if [ $mode = save ]; then
    {
        echo "# Instructions of one time: scripts/instructions.sh --save. $(rustc --version | cut -d' ' -f1,2), $(uname -m)."
        echo "$counted"
    } >"$baseline"
fi
compare <<<"$counted" || [ $mode != check ]
