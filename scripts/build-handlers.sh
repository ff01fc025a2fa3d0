#!/usr/bin/env bash
# Builds the stock handlers and drops them into the handlers folder: handlers/<name>/ becomes handlers/<name>.wasm.
#
#   scripts/build-handlers.sh [name…]     all of them if none is named
#
# A running runner loads each component at once. The script writes a file beside its target and renames it over the
# target, so that the runner never reads half a component.
set -euo pipefail
cd "$(dirname "$0")/.."

target=wasm32-wasip2
built="${CARGO_TARGET_DIR:-target}/$target/handler"

# The linker's default stack for Rust is 1 MiB, and a fresh sandbox pays for every page that a job touches. So handlers get
# 64 KiB, or the size in their Cargo.toml. The stack is below the data: an overflow traps and overwrites nothing.
stack_bytes() {
    local bytes
    bytes=$(sed -n 's/^stack-bytes = \([0-9]*\)$/\1/p' "handlers/$1/Cargo.toml")
    echo "${bytes:-65536}"
}

build() {
    local name=$1
    cargo rustc --quiet --package "$name" --lib --crate-type cdylib --profile handler --target "$target" -- \
        -Clink-arg=-zstack-size="$(stack_bytes "$name")"
}

drop() {
    local name=$1
    local landing="handlers/.$name.wasm.$$"
    trap 'rm -f "$landing"' RETURN
    cp "$built/${name//-/_}.wasm" "$landing"
    mv "$landing" "handlers/$name.wasm"
    echo "handlers/$name.wasm: $(wc -c <"handlers/$name.wasm") bytes"
}

if [ $# -eq 0 ]; then
    for manifest in handlers/*/Cargo.toml; do
        set -- "$@" "$(basename "$(dirname "$manifest")")"
    done
fi
for name in "$@"; do
    if [ ! -f "handlers/$name/Cargo.toml" ]; then
        echo "build-handlers: there is no handlers/$name/Cargo.toml" >&2
        exit 1
    fi
    build "$name"
    drop "$name"
done
