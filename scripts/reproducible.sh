#!/usr/bin/env bash
# `./dev reproducible`: builds the packages of the last commit twice, in clones with paths of different lengths and with
# another home of the crates' sources, and compares their bytes. Exit code 1 if a file differs; a message names it.
# The script needs 3 GB below target, which `--clean` removes, and the time of two release builds.
set -euo pipefail
cd "$(dirname "$0")/.."

out=$(pwd)/target/reproducible
commit=$(git rev-parse HEAD)
first=$out/first second=$out/second-clone-with-a-longer-path
crates=${CARGO_HOME:-$HOME/.cargo}

die() { printf 'reproducible: %s\n' "$*" >&2; exit 1; }

# build CLONE CARGO_HOME
build() {
    rm -rf "$1"
    git clone --quiet --no-hardlinks . "$1"
    git -C "$1" checkout --quiet --detach "$commit"
    printf '== building in %s\n' "$1"
    (cd "$1" && env -u CARGO_TARGET_DIR -u RUSTFLAGS -u CARGO_ENCODED_RUSTFLAGS CARGO_HOME="$2" scripts/package.sh >"$1.log" 2>&1) ||
        die "the build failed ($1.log): $(tail -1 "$1.log")"
}

# unpack PACKAGE FOLDER: unpacks a Debian package or a tarball.
unpack() {
    mkdir -p "$2"
    case $1 in
        *.deb) dpkg-deb --raw-extract "$1" "$2" ;;
        *) tar -xzf "$1" -C "$2" ;;
    esac
}

case "${1:-}" in
    '') ;;
    --clean) rm -rf "$out"; exit ;;
    *) die "unknown: $1 (nothing or --clean)" ;;
esac
[ -d "$crates/registry" ] || die "$crates holds no sources of crates: build once, then try again"
mkdir -p "$out"
# A separate home for the second build, because its path must not be in the files either.
rm -rf "$out/home"
mkdir "$out/home"
cp -r "$crates/registry" "$out/home/"
for file in config.toml credentials.toml; do
    [ ! -e "$crates/$file" ] || cp "$crates/$file" "$out/home/"
done
build "$first" "$crates"
build "$second" "$out/home"

differing=0
for package in "$first"/target/packages/*.{deb,tar.gz}; do
    name=${package##*/}
    if cmp -s "$package" "$second/target/packages/$name"; then
        printf '  same bytes: %s (%s)\n' "$name" "$(sha256sum "$package" | cut -c1-16)"
        continue
    fi
    differing=$((differing + 1))
    printf '  differs:    %s\n' "$name"
    rm -rf "$out/unpacked"
    unpack "$package" "$out/unpacked/first"
    unpack "$second/target/packages/$name" "$out/unpacked/second"
    diff -rq "$out/unpacked/first" "$out/unpacked/second" | sed "s|$out/unpacked/||g; s/^/              /" || true
done
[ "$differing" -eq 0 ] || die "$differing packages differ"
rm -rf "$first" "$second" "$out/home"
printf '== two builds, the same bytes\n'
