#!/usr/bin/env bash
# Sends a server requests that its OpenAPI document allows, and others that it forbids, and checks the answers against the
# document. The generated requests are the same each time. `scripts/setup.sh --tests` installs the tool. More and other requests:
#
#   scripts/schemathesis.sh http://127.0.0.1:7331 --max-examples 200 --seed 7
#
# The server receives nonsense jobs: use none that is in production.
set -euo pipefail
cd "$(dirname "$0")/.."

server="${1:?name the server, such as http://127.0.0.1:7331}"
shift
options=("$@")
case " $* " in
    *" --seed "*) ;;
    *) options+=(--generation-deterministic) ;;
esac

# Excluded: signals and events never end, the first token shuts out clients without one, a claim may wait for a minute, and
# the tool cannot make components. A request that the document allows may still be too large, or name an unknown job. The server
# refuses requests that a web page could send by itself before it checks the method. The phase `coverage` takes some minutes.
exec target/tools/bin/schemathesis --config-file scripts/schemathesis.toml run "$server/v1/openapi.json" \
    --url "$server" \
    --phases examples,fuzzing \
    --max-examples 50 \
    --workers 1 \
    --request-timeout 60 \
    --max-response-time 60 \
    --exclude-path /v1/signals \
    --exclude-path-regex '/(events|claim|handler)$|tokens' \
    --exclude-checks positive_data_acceptance,missing_required_header,unsupported_method \
    --checks all \
    --continue-on-failure \
    "${options[@]}"
