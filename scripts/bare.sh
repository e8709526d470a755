#!/usr/bin/env bash
# `./dev bare`: the first commands of a new user, on a bare machine.
#
# Makes a minimal Debian 12 with debootstrap, adds only the Rust toolchain of this machine, clones the committed tree,
# and runs `./dev demo` and `./dev test --short` there: both install their packages themselves. Removes everything
# again, also if interrupted. The script needs root, git and about 3 GB. `--keep` leaves the root and its build for
# the next run, which then is not bare; `--clean` removes it.
set -euo pipefail
cd "$(dirname "$0")/.."

suite=bookworm
root=$(pwd)/target/bare/$suite
keep=no
. scripts/debian_root.sh

# The toolchain stands in /opt/rust. Crates come by the proxies, certificates and registries of this machine.
debian_environment=(PATH=/opt/rust/bin:/usr/sbin:/usr/bin:/sbin:/bin CARGO_HOME=/opt/cargo
    CARGO_HTTP_CAINFO=/opt/cargo/certificates.crt)
debian_add_proxies

# try COMMAND: runs a command of this project in the root. `wait` waits for it, because a signal
# interrupts `wait` at once.
try() {
    printf '== %s\n' "$1"
    debian_inside sh -c "cd /opt/project && exec $1" &
    wait $!
}

put_in_rust() {
    local sysroot cargo_home=${CARGO_HOME:-$HOME/.cargo} certificates file
    sysroot=$(rustc --print sysroot)
    debian_mount --bind "$sysroot" opt/rust
    mount -o remount,bind,ro "$root/opt/rust"
    mkdir -p "$root/opt/cargo"
    for file in "$cargo_home"/config "$cargo_home"/config.toml; do
        if [ -f "$file" ]; then cp "$file" "$root/opt/cargo/"; fi
    done
    certificates=${CARGO_HTTP_CAINFO:-${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}}
    cp "$certificates" "$root/opt/cargo/certificates.crt"
}

main() {
    local status=0
    case "${1:-}" in
        --clean) debian_remove; return ;;
        --keep) keep=yes ;;
        '') ;;
        *) debian_die "unknown: $1 (nothing, --keep or --clean)" ;;
    esac
    debian_trap
    mkdir -p "$(dirname "$root")"
    debian_make
    put_in_rust
    mkdir -p "$root/opt/project"
    # The build of an earlier run stays; the files are replaced by those of the last commit.
    find "$root/opt/project" -mindepth 1 -maxdepth 1 ! -name target -exec rm -rf {} +
    git clone --quiet --no-hardlinks --no-checkout . "$root/opt/clone"
    mv "$root/opt/clone/.git" "$root/opt/project/.git"
    rm -rf "$root/opt/clone"
    git -C "$root/opt/project" reset --quiet --hard
    printf '== %s on a Debian %s\n' "$(git -C "$root/opt/project" log -1 --format='%h %s')" \
        "$(debian_inside cat /etc/debian_version)"
    try './dev demo' || status=$?
    try './dev test --short' || status=$?
    if [ $status -eq 0 ]; then
        printf '== bare: passed in %d s\n' $SECONDS
    else
        printf '== bare: FAILED after %d s\n' $SECONDS
    fi
    return $status
}

main "$@"
