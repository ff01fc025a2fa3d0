#!/usr/bin/env bash
# Asks a server whatever its OpenAPI document allows, and what it does not, and holds the answers against the document:
# about a minute of requests that nobody has thought of. The tool comes from Python's package index, into target/tools.
#
#   scripts/schemathesis.sh http://127.0.0.1:7331
#
# The server is given nonsense jobs: ask none that is in use.
set -euo pipefail
cd "$(dirname "$0")/.."

version=4.32.5
tools="$PWD/target/tools"
server="${1:?name the server, such as http://127.0.0.1:7331}"
shift

[ -x "$tools/bin/python" ] || python3 -m venv "$tools"
if ! "$tools/bin/python" -c "import importlib.metadata as m; assert m.version('schemathesis') == '$version'" 2>/dev/null; then
    "$tools/bin/python" -m pip install --quiet --disable-pip-version-check "schemathesis==$version"
fi

# Signals and events have no end, the first token closes the door to whoever has none, a claim may wait for a minute, and the tool
# knows no components. What is positive by the document may still be too large, or name a job that is none; and what a web page
# could send by itself is refused before its method is looked at.
exec "$tools/bin/python" -m schemathesis.cli --config-file scripts/schemathesis.toml run "$server/v1/openapi.json" \
    --url "$server" \
    --phases examples,coverage,fuzzing \
    --max-time 60 \
    --seed 1 \
    --workers 1 \
    --request-timeout 30 \
    --exclude-path /v1/signals \
    --exclude-path-regex '/(events|claim|handler)$|tokens' \
    --exclude-checks positive_data_acceptance,missing_required_header,unsupported_method \
    --checks all \
    --continue-on-failure \
    "$@"
