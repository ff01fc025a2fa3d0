#!/usr/bin/env bash
# Asks a server whatever its OpenAPI document allows, and what it does not, and holds the answers against the document:
# requests that nobody has thought of, the same ones each time. `scripts/setup.sh --tests` brings the tool. More of them, and
# other ones:
#
#   scripts/schemathesis.sh http://127.0.0.1:7331 --max-examples 200 --seed 7
#
# The server is given nonsense jobs: ask none that is in use.
set -euo pipefail
cd "$(dirname "$0")/.."

server="${1:?name the server, such as http://127.0.0.1:7331}"
shift
options=("$@")
case " $* " in
    *" --seed "*) ;;
    *) options+=(--generation-deterministic) ;;
esac

# Signals and events have no end, the first token closes the door to whoever has none, a claim may wait for a minute, and the tool
# knows no components. What is positive by the document may still be too large, or name a job that is none; and what a web page
# could send by itself is refused before its method is looked at. The phase `coverage` takes the tool some minutes.
exec target/tools/bin/schemathesis --config-file scripts/schemathesis.toml run "$server/v1/openapi.json" \
    --url "$server" \
    --phases examples,fuzzing \
    --max-examples 50 \
    --workers 1 \
    --request-timeout 60 \
    --exclude-path /v1/signals \
    --exclude-path-regex '/(events|claim|handler)$|tokens' \
    --exclude-checks positive_data_acceptance,missing_required_header,unsupported_method \
    --checks all \
    --continue-on-failure \
    "${options[@]}"
