#!/bin/bash
# Hosts out of Linux namespaces, and the links between them: sourced by hosts.sh, and run by btl-ofi/core/tests/hosts.rs. A host
# is named by the number of the process `unshare` that made it.
#
#   hosts_namespaces.sh FUNCTION [ARGUMENTS...]    calls namespaces_FUNCTION
#
# A host ends, with all of its processes, when its standard input or that process ends.

# Prints the reason why hosts cannot be made here; nothing if they can.
namespaces_obstacle() {
    local program out
    if [ "$(id -u)" -ne 0 ]; then
        echo 'not root'
        return
    fi
    for program in ip unshare nsenter mkfifo; do
        command -v "$program" >/dev/null || { echo "$program is missing"; return; }
    done
    out=$(unshare --net --uts --ipc --mount --pid --fork --mount-proc \
        ip link add br0 type bridge 2>&1) || { echo "no namespaces: $out"; return; }
}

# namespaces_start NAME PRIVATE...: becomes a host with everything of its own, also the folders PRIVATE. Prints "ready".
namespaces_start() {
    exec unshare --net --uts --mount --ipc --pid --mount-proc --fork --kill-child=KILL scripts/hosts_init.sh "$@"
}

# namespaces_start_head NAME: becomes a host for a launcher, which sees this machine's processes.
namespaces_start_head() { exec unshare --net --uts --mount --fork --kill-child=KILL scripts/hosts_init.sh "$1"; }

# namespaces_beside PID own|outer: becomes a container on a host, with process ids of its own. The container sees the files of
# its own processes in /proc, or of the host's processes.
namespaces_beside() {
    local within=(--net --ipc --uts --mount) own=(--mount-proc)
    if [ "$2" = outer ]; then
        # The host's /proc shows the container's processes too, with other ids.
        within+=(--pid="/proc/$1/ns/pid_for_children")
        own=()
    fi
    exec nsenter --target "$1" "${within[@]}" --wd="$PWD" \
        unshare --mount --pid "${own[@]}" --fork --kill-child=KILL scripts/hosts_init.sh
}

# namespaces_enter PID COMMAND...: becomes `nsenter`, which runs a command in a host.
namespaces_enter() {
    local pid=$1 own=(--ipc)
    shift
    # Without process ids of the host's own the command takes the place of `nsenter`, and gets its signals.
    [ "/proc/$pid/ns/pid_for_children" -ef /proc/self/ns/pid ] || own+=(--pid="/proc/$pid/ns/pid_for_children")
    exec nsenter --target "$pid" --net --uts --mount "${own[@]}" --wd="$PWD" -- "$@"
}

namespaces_ip() { (namespaces_enter "$1" ip "${@:2}"); }

# namespaces_wire PID INTERFACE PID INTERFACE: joins two hosts by a link.
namespaces_wire() {
    ip link add name "$2" netns "$1" type veth peer name "$4" netns "$3" &&
        namespaces_ip "$1" link set "$2" up && namespaces_ip "$3" link set "$4" up
}

# namespaces_await PID INTERFACE...: waits until interfaces run. libfabric ignores one that does not, even if the user names it.
namespaces_await() {
    local pid=$1 interface tries
    shift
    for interface in "$@"; do
        for ((tries = 0; tries < 500; ++tries)); do
            ! namespaces_ip "$pid" -oneline link show dev "$interface" up | grep -q 'state UP' || continue 2
            sleep 0.02
        done
        return 1
    done
}

# namespaces_give_docker PID [NAME]: a bridge like a container engine's, with a container, and the address that every host has.
namespaces_give_docker() {
    local pid=$1 bridge=${2:-docker0} line
    while read -r line; do
        # shellcheck disable=SC2086 # words of a command
        namespaces_ip "$pid" $line || return 1
    done <<END_OF_LINES
link add $bridge type bridge
link add inside type veth peer name outside
address add 172.17.0.1/16 dev $bridge
link set outside master $bridge up
link set inside up
link set $bridge up
END_OF_LINES
    namespaces_await "$pid" "$bridge"
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
    set -euo pipefail
    "namespaces_$1" "${@:2}"
fi
