#!/usr/bin/env bash
# Attacks a server of our own and prints what that did to the honest jobs of another tenant. Ends with an error if a job was lost or
# done twice, a verdict was wrong, or the server did not answer; latencies are printed with their goals and are not enforced.
#
#   scripts/adversary.sh [--release] [EXPERIMENT]
#
#   clients [SECONDS]    hostile clients; each is measured for so long, 10 s if not said; and a client whose token is revoked
#   guests [SECONDS]     hostile guests and components, likewise
#   kills [N]            kill -9 of runners, servers and commands on both stores, N in all, 1000 if not said
#   cuts                 the connection to Redis cut at every command, the file of the embedded store at every write
#   outages              Redis killed, stopped, full, cut off or not answering; a disk that is full or takes no writes
#   all                  all of them; the default
#
# GRISTMILL_ADVERSARY_ONLY=TEXT keeps to the clients or guests whose names contain the text.
#
# The tests run the same experiments in short.
set -euo pipefail
cd "$(dirname "$0")/.."

profile=()
if [ "${1-}" = --release ]; then
    profile=(--release)
    shift
fi
experiment="${1:-all}"
amount="${2-}"

# The tests of an experiment, one after the other: each has the machine for itself. Rows of tables and failures are printed.
run() {
    cargo test --quiet "${profile[@]}" --workspace --test it -- --nocapture --test-threads 1 "$@" 2>&1 |
        grep -a --line-buffered "|\|panicked\|goal\|kills:\|SEED=\|given back\|test result\|FAILED\|^error"
}
clients() { GRISTMILL_ADVERSARY_SECONDS="${amount:-10}" run adversary::clients adversary::revoked; }
guests() { GRISTMILL_ADVERSARY_SECONDS="${amount:-10}" run adversary::guests; }
# Seven tests kill, each as often as the others.
kills() { GRISTMILL_TEST_KILLS=$(((${amount:-1000} + 6) / 7)) run adversary::kills crash::killed killed::; }
cuts() { run cuts::; }
outages() { GRISTMILL_ADVERSARY_SECONDS=10 run adversary::outages hardship:: crash::when_redis stores::away; }

case "$experiment" in
    clients | guests | kills | cuts | outages) "$experiment" ;;
    all) for one in clients guests kills cuts outages; do "$one"; done ;;
    *)
        sed -n '2,/^set /s/^# \?//p' "$0" >&2
        exit 2
        ;;
esac
