# Functions for a minimal Debian in a separate root, for `./dev openmpi5`, `./dev openmpi6` and `./dev bare`. Sourced by bash,
# under `set -euo pipefail`; the script sets `root` (the folder, absolute; empty while there is none), `suite`, and `keep` to yes if
# the root stays for the next run. The functions need root for debootstrap, chroot and mounts.

# The mirror that this machine's own packages come from, unless DEBIAN_MIRROR names another.
mirror=${DEBIAN_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 2>/dev/null | grep -m1 '/debian/*$' || true)}

debian_die() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; exit 1; }

# Ends processes that still run in the root.
debian_end() {
    local process real
    real=$(realpath -m -- "$root")
    for process in /proc/[0-9]*; do
        if [ "$(readlink "$process/root" 2>/dev/null)" = "$real" ]; then
            kill -KILL "${process#/proc/}" 2>/dev/null || true
        fi
    done
}

# Mounts below the root, the deepest first. /proc/mounts has resolved paths, with blanks as \040.
debian_mounts() {
    local real at
    real=$(realpath -m -- "$root")
    awk '{ print $2 }' /proc/mounts | while IFS= read -r at; do
        at=$(printf '%b' "${at//\\/\\0}")
        if [[ $at == "$real"/* ]]; then printf '%s\n' "$at"; fi
    done | sort -r
}

# Unmounts every mount below the root.
debian_unmount() {
    local at
    debian_end
    debian_mounts | while IFS= read -r at; do
        umount "$at" || umount -l "$at"
    done
}

debian_remove() {
    debian_unmount
    # A mount that cannot be unmounted must not be emptied.
    if [ -n "$(debian_mounts)" ]; then
        debian_die "something is still mounted under $root; it was left in place"
    fi
    rm -rf --one-file-system "$root"
}

# Leaves the root as it is for the next run, or removes it.
debian_leave() {
    [ -n "$root" ] || return 0
    if [ "$keep" = yes ]; then debian_unmount; else debian_remove; fi
}

# Leaves the root when the script ends, also if it is interrupted.
debian_trap() {
    trap 'status=$?; trap "" INT TERM; debian_leave; exit $status' EXIT
    trap 'exit 130' INT TERM
}

# Programs in the root use the proxies of this machine.
debian_add_proxies() {
    local name
    for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY; do
        if [ -n "${!name:-}" ]; then debian_environment+=("$name=${!name}"); fi
    done
}

# Makes the root, unless it was completed before, and mounts the file systems that programs expect. The root has its own
# shared memory, so that no file stays on this machine.
debian_make() {
    local log=$root.log
    [ "$(id -u)" -eq 0 ] || debian_die "debootstrap and chroot need root: run this as root"
    if ! command -v debootstrap >/dev/null; then
        { apt-get -qq update && apt-get -qq install -y --no-install-recommends debootstrap; } >"$log" 2>&1 ||
            debian_die "debootstrap is missing, and apt-get did not install it ($log)"
    fi
    if [ ! -e "$root/.made" ]; then
        printf '== a Debian %s in %s\n' "$suite" "$root"
        debian_remove
        mkdir -p "$root"
        debootstrap --variant=minbase "$suite" "$root" "$mirror" >"$log" 2>&1 ||
            { tail -3 "$log" >&2; debian_die "debootstrap failed ($log)"; }
        touch "$root/.made"
    fi
    cp /etc/resolv.conf "$root/etc/"
    debian_mount -t proc proc proc
    debian_mount --bind /dev dev
    # Open MPI reads its topology from here; UCX reads this file, too, and fails without it.
    debian_mount -t sysfs sysfs sys
    mkdir -p "$root/dev/shm"
    debian_mount -t tmpfs tmpfs dev/shm
}

# debian_mount OPTIONS... WHAT WHERE: mounts below the root, once.
debian_mount() {
    local where=$root/${!#}
    mkdir -p "$where"
    mountpoint -q "$where" || mount "${@:1:$#-1}" "$where"
}

# debian_inside COMMAND...: runs a command in the root, with a separate environment.
debian_inside() {
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
        "${debian_environment[@]}" chroot "$root" "$@"
}
