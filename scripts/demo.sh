#!/usr/bin/env bash
# The main job on real input: a photo becomes a thumbnail, and an unpaid order is closed after its delay.
# Installs missing tools, shows each job's life as it happens, and ends by itself.
#
#   scripts/demo.sh                  on a store of its own, in out/demo
#   REDIS_URL=… scripts/demo.sh      on that Redis
#   scripts/demo.sh --keep-running   leaves the runner running until Ctrl-C
set -euo pipefail
cd "$(dirname "$0")/.."

keep_running=false
case "${1-}" in
    "") ;;
    --keep-running) keep_running=true ;;
    *) echo "usage: scripts/demo.sh [--keep-running]" >&2; exit 2 ;;
esac

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }

say "Setting up"
scripts/setup.sh
say "Building the handlers and the runner: five to eight minutes the first time"
# Side by side: they share no target folder, and each alone leaves a core idle at times.
scripts/build-handlers.sh &
handlers=$!
cargo build --quiet -p gristmill
wait $handlers

out=out/demo
rm -rf "$out" && mkdir -p "$out"
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT

export GRISTMILL_STORE="${REDIS_URL:-sqlite:$out/jobs.db}"
gristmill() { target/debug/gristmill "$@"; }

say "gristmill run: a runner on gristmill.toml and handlers/"
: >"$out/run.log"
target/debug/gristmill --log info,gristmill::runner=debug run > >(tee "$out/run.log") 2>&1 &
runner=$!
until grep -q "ready for jobs" "$out/run.log"; do kill -0 $runner && sleep 0.05; done

say "gristmill push resize-image --file examples/photo.jpg --meta width=320 --wait > $out/thumbnail.jpg"
gristmill push resize-image --file examples/photo.jpg --meta width=320 --wait >"$out/thumbnail.jpg"
say "$(wc -c <examples/photo.jpg) bytes in, $(wc -c <"$out/thumbnail.jpg") bytes out: $out/thumbnail.jpg"

say "gristmill push order-timeout --file examples/order.json --delay 3s --wait"
closed=$(gristmill push order-timeout --file examples/order.json --delay 3s --wait)
echo "$closed"
# The handler enqueued a notification. It became visible with the acknowledgement of the handler's own job.
for _ in $(seq 200); do grep -q "done.*topic=.\?notify" "$out/run.log" && break; sleep 0.05; done
grep -q "done.*topic=.\?notify" "$out/run.log" || { echo "the notification was not done within 10 s" >&2; exit 1; }

say "gristmill stats"
gristmill stats

if $keep_running; then
    say "The runner keeps running. In another terminal: target/debug/gristmill --store $GRISTMILL_STORE push echo --data hello --wait"
    wait $runner
else
    say "Ending the runner: SIGTERM"
    kill -TERM $runner
    wait $runner
    say "All done."
fi
