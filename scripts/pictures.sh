#!/usr/bin/env bash
# Makes the pictures in the README and the docs: docs/top.svg of what `gristmill top` draws, and docs/page.png of the page: a runner on the demo's
# manifest, some jobs, a browser. `scripts/pictures.sh top` makes only the first.
# Needs what `scripts/setup.sh --tests` installs. GRISTMILL names another binary than target/debug/gristmill.
set -euo pipefail
cd "$(dirname "$0")/.."

UPDATE_PICTURES=1 cargo test --workspace --lib -- picture
if [ "${1:-}" = top ]; then exit; fi

out=out/pictures
rm -rf "$out" && mkdir -p "$out"
export GRISTMILL_STORE="sqlite:$out/jobs.db"
program="${GRISTMILL:-target/debug/gristmill}"
gristmill() { "$program" "$@"; }

trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
gristmill run >"$out/run.log" 2>&1 &
runner=$!
until grep -q "ready for jobs" "$out/run.log"; do kill -0 $runner && sleep 0.05; done

# Of each state some: done, delayed, ready without a handler, paused, dead.
for n in $(seq 40); do echo "{\"to\": \"ada$n@example.org\"}"; done >"$out/jobs.jsonl"
while read -r body; do gristmill push notify --data "$body" >>"$out/push.log"; done <"$out/jobs.jsonl"
for _ in $(seq 12); do gristmill push order-timeout --file examples/order.json --delay 1h >>"$out/push.log"; done
for _ in $(seq 3); do gristmill push resize-image --data 'no image' >>"$out/push.log"; done
for n in $(seq 9); do gristmill push invoices --data "{\"n\": $n}" >>"$out/push.log" 2>&1; done
gristmill pause echo >>"$out/push.log"
for n in $(seq 5); do gristmill push echo --data "$n" >>"$out/push.log"; done

url=$(grep -o 'the page is http://[^ ]*' "$out/run.log" | cut -d ' ' -f 4)
chromium --headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-sync \
    --user-data-dir="$PWD/$out/profile" --hide-scrollbars --window-size=1100,720 --virtual-time-budget=8000 \
    --screenshot="$PWD/docs/page.png" "$url" 2>"$out/chromium.log"
wc -c docs/page.png
