#!/usr/bin/env bash
# Installs what building and running Gristmill needs and this machine lacks, on Debian and its kin:
# the WebAssembly target of the Rust toolchain, and for the tests redis-server. Says nothing if nothing is missing.
#
#   scripts/setup.sh            what running needs
#   scripts/setup.sh --tests    what the tests need, too
set -euo pipefail
cd "$(dirname "$0")/.."

target=wasm32-wasip2

fail() {
    echo "setup: $1" >&2
    exit 1
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        fail "\`$*\` needs root, and there is no sudo: run it as root, then run this again"
    fi
}

# Asks the toolchain itself, not rustup: a distribution's own Rust may have the target, too.
have_target() {
    [ -d "$(rustc --print sysroot)/lib/rustlib/$target/lib" ]
}

install_target() {
    command -v rustup >/dev/null ||
        fail "Rust lacks the target $target and there is no rustup to add it: see https://rustup.rs"
    echo "setup: adding the Rust target $target"
    rustup target add "$target"
}

have_redis() {
    command -v redis-server >/dev/null
}

install_redis() {
    command -v apt-get >/dev/null ||
        fail "there is no redis-server and no apt-get to install it: install Redis 6.2 or later"
    echo "setup: installing redis-server"
    # The package starts a server of its own on port 6379; nothing here needs one running.
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq update
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq --yes --no-install-recommends install redis-server >/dev/null
}

command -v cargo >/dev/null || fail "there is no cargo: install Rust from https://rustup.rs"
have_target || install_target
case "${1-}" in
    "") ;;
    --tests) have_redis || install_redis ;;
    *) fail "\`$1\` is no option; there is --tests" ;;
esac
