#!/usr/bin/env bash
# The same handler in every language, side by side: builds each example as `gristmill new` writes it, and measures sizes, times,
# fuel and memory for the same job (`gristmill-bench components`). docs/guides/handlers.md has the resulting table.
#
#   scripts/languages.sh [language…]         default: all with installed tools; scripts/setup.sh --tests installs all
#   GRISTMILL=… scripts/languages.sh         with this program, without a release build first
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/target/tools/bin:$PATH"

gristmill=${GRISTMILL:-target/release/gristmill}
bench=${GRISTMILL_BENCH:-target/release/gristmill-bench}
[ -n "${GRISTMILL:-}" ] || cargo build --quiet --release --workspace --bin gristmill --bin gristmill-bench
gristmill=$(realpath "$gristmill")
bench=$(realpath "$bench")

out=out/languages
rm -rf "$out" && mkdir -p "$out"
export CARGO_TARGET_DIR="$PWD/target/languages"
[ $# -gt 0 ] || set -- rust c zig assemblyscript go javascript typescript python

components=()
for language in "$@"; do
    "$gristmill" new "$language" --lang "$language" --path "$out/$language" 2>/dev/null
    if (cd "$out/$language" && "$gristmill" build >build.log 2>&1); then
        components+=("handlers/$language.wasm")
        # Each topic with the grants that its language needs.
        cat "$out/$language/gristmill.toml" >>"$out/gristmill.toml"
        mkdir -p "$out/handlers" && cp "$out/$language/handlers/$language.wasm" "$out/handlers/"
    else
        echo "left out: $language: $(tail -n 1 "$out/$language/build.log")" >&2
    fi
done
[ ${#components[@]} -gt 0 ] || exit 1
cd "$out"
"$bench" components "${components[@]}" --data '{"email":"ada@example.org","name":"Ada"}'
