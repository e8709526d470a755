#!/bin/bash
# The first process of a host of `./dev hosts`: prepares its namespaces and ends when the script that made it does.
#
#   hosts_init.sh NAME FOLDER PRIVATE...    PRIVATE: folders that the host has for itself
set -euo pipefail
name=$1 folder=$2
shift 2
mount --make-rprivate /
for private in "$@"; do mount -t tmpfs tmpfs "$private"; done
mount -t sysfs sysfs /sys
# Names of the hosts, because no host reaches a name server.
mount --bind "$folder/etc_hosts" /etc/hosts
[ ! -e /etc/resolv.conf ] || mount --bind "$folder/etc_resolv" /etc/resolv.conf
hostname "$name"
ip link set lo up
echo ready >"$folder/$name.ready"
# Nobody writes to the pipe, so `cat` ends when the pipe's last writer is gone. The first process of a pid namespace
# must stay and wait for the others, so it does not exec.
[ $$ -eq 1 ] || exec cat <"$folder/life" >/dev/null
cat <"$folder/life" >/dev/null
