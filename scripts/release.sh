#!/usr/bin/env bash
# Makes a release: the binary, its packages, checksums and signatures, in out/release. Needs Debian's binutils, rpm and python3, and for
# signatures minisign; no network but the registry of crates.
#
#   scripts/release.sh                   builds and packages
#   scripts/release.sh --target TRIPLE   the same for another target than x86_64-unknown-linux-gnu: x86_64-unknown-linux-musl is static
#   scripts/release.sh --binary FILE     packages this binary instead of building one
#   scripts/release.sh --check           installs each package into an empty place and does a job with it, each with its time
#   scripts/release.sh --reproduce       makes the release twice at once, from two clones in different folders, and keeps it if all files are the same
#
# MINISIGN_KEY names the secret key (without a password) that signs, GRISTMILL_RELEASE_KEY is the public key that `gristmill verify` knows,
# GRISTMILL_APT_KEY is the key of GnuPG that signs the apt repository.
set -euo pipefail
cd "$(dirname "$0")/.."

binary= target=x86_64-unknown-linux-gnu out="$PWD/out/release" mode=make
while [ $# -gt 0 ]; do
    case "$1" in
        --binary) binary=$(realpath "$2"); shift ;;
        --target) target=$2; shift ;;
        --out) mkdir -p "$2"; out=$(realpath "$2"); shift ;;
        --check) mode=check ;;
        --reproduce) mode=reproduce ;;
        *) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    esac
    shift
done

commit=$(git rev-parse HEAD)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH GRISTMILL_COMMIT=$commit TZ=UTC LC_ALL=C

fail() {
    echo "release: $1" >&2
    exit 1
}

build() {
    local sysroot cargo_home=${CARGO_HOME:-$HOME/.cargo}
    sysroot=$(rustc --print sysroot)
    [ -d "$sysroot/lib/rustlib/$target" ] || rustup target add "$target" || fail "Rust has no target $target here"
    # No path of this machine is in the binary, neither of Rust code nor of C.
    local maps="--remap-path-prefix=$PWD=/gristmill --remap-path-prefix=$cargo_home=/cargo --remap-path-prefix=$sysroot=/rust"
    local c_maps="-ffile-prefix-map=$PWD=/gristmill -ffile-prefix-map=$cargo_home=/cargo -ffile-prefix-map=$CARGO_TARGET_DIR=/target"
    # Functions that are the same are there once. Rust's own linker links both, so that the machine's does not matter.
    local link=
    case "$target" in
        x86_64-unknown-linux-gnu) link="-Clink-arg=-Wl,--icf=all,-O2" ;;
        # Static, with the musl that Rust brings. Relocations are packed, which an older glibc would not understand.
        *-musl)
            command -v musl-gcc >/dev/null || fail "there is no musl-gcc: Debian has it in musl-tools"
            link="-Clinker=rust-lld -Clink-self-contained=yes -Clink-arg=--icf=all -Clink-arg=-O2 -Clink-arg=--pack-dyn-relocs=relr"
            ;;
    esac
    # SQLite without what no store uses: searches in texts and in rooms, and code from files.
    local sqlite="-USQLITE_ENABLE_FTS3 -USQLITE_ENABLE_FTS3_PARENTHESIS -USQLITE_ENABLE_FTS5 -USQLITE_ENABLE_RTREE -USQLITE_ENABLE_LOAD_EXTENSION -DSQLITE_OMIT_LOAD_EXTENSION"
    LIBSQLITE3_FLAGS="$sqlite" CFLAGS="$c_maps" RUSTFLAGS="$maps --remap-path-prefix=$CARGO_TARGET_DIR=/target $link" \
        cargo build --locked --quiet --profile dist --target "$target" -p gristmill
}

# The program without symbols, with what `gristmill verify` reads, and the symbols beside it.
finish() {
    local built=$1 staged=$2
    packaging/sbom.py "$target" "$commit" "$staged"
    objcopy --only-keep-debug --compress-debug-sections "$built" "$staged/gristmill.debug"
    (cd "$staged" && objcopy --strip-all --add-gnu-debuglink=gristmill.debug --add-section .dep-v0=packages.zlib \
        --add-section .gristmill=about.json "$built" gristmill)
}

sign() {
    [ -n "${MINISIGN_KEY-}" ] || return 0
    minisign -S -s "$MINISIGN_KEY" -m "$1" -t "gristmill $commit" </dev/null >/dev/null
}

# Man pages and completions by the binary itself, and the stock handlers.
stage() {
    local staged=$1 program=$2
    mkdir -p "$staged/completions" "$staged/handlers"
    "$program" man "$staged/man"
    "$program" completions bash >"$staged/completions/gristmill"
    "$program" completions zsh >"$staged/completions/_gristmill"
    "$program" completions fish >"$staged/completions/gristmill.fish"
    "$program" completions elvish >"$staged/completions/gristmill.elv"
    "$program" completions powershell >"$staged/completions/gristmill.ps1"
    cp "${GRISTMILL_HANDLERS:-handlers}"/*.wasm "$staged/handlers"
}

make() {
    local staged built=$binary file
    rm -rf "$out" && mkdir -p "$out"
    export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}"
    [ -n "${GRISTMILL_HANDLERS-}" ] ||
        RUSTFLAGS="--remap-path-prefix=$PWD=/gristmill --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo" scripts/build-handlers.sh >&2
    staged=$(mktemp -d)
    if [ -z "$built" ]; then
        if [ -n "$(git status --porcelain)" ]; then
            fail "what is built must be what is committed: commit or stash what git status shows"
        fi
        build
        built="$CARGO_TARGET_DIR/$target/dist/gristmill"
    fi
    finish "$built" "$staged"
    sign "$staged/gristmill"
    stage "$staged" "$staged/gristmill"
    packaging/pack.py --binary "$staged/gristmill" --target "$target" --staged "$staged" --out "$out"
    gzip -n -c "$staged/gristmill.debug" >"$out/gristmill-$target.debug.gz"
    rm -r "$staged"
    (cd "$out" && sha256sum -- * >SHA256SUMS)
    for file in "$out"/*; do sign "$file"; done
    ls -l "$out"
}

reproduce() {
    local work first second clone builds=()
    work=$(mktemp -d)
    first="$work/first" second="$work/elsewhere/second"
    for clone in "$first" "$second"; do
        git clone --quiet --no-checkout . "$clone" && git -C "$clone" checkout --quiet "$commit"
        (cd "$clone" && unset CARGO_TARGET_DIR && scripts/release.sh ${binary:+--binary "$binary"} --target "$target" >"$clone.log" 2>&1) &
        builds+=($!)
    done
    wait "${builds[0]}" || fail "the first build failed: see $first.log"
    wait "${builds[1]}" || fail "the second build failed: see $second.log"
    diff -rq "$first/out/release" "$second/out/release" || fail "the builds differ: both are kept in $work"
    rm -rf "$out" && mkdir -p "$(dirname "$out")" && cp -r "$first/out/release" "$out"
    rm -rf "$work"
    ls -l "$out"
    echo "release: both builds are the same, bit for bit"
}

case $mode in
    make) make ;;
    check) exec packaging/check.py "$out" ;;
    reproduce) reproduce ;;
esac
