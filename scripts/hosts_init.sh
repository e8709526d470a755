#!/bin/bash
# The first process of a host or container of hosts_namespaces.sh: prepares the namespaces and ends with its standard input.
#
#   hosts_init.sh [NAME PRIVATE...]    nothing: a container. PRIVATE: folders that the host has for itself
set -euo pipefail
if [ $# -gt 0 ]; then
    hostname "$1"
    for private in "${@:2}"; do mount -t tmpfs tmpfs "$private"; done
    mount -t sysfs sysfs /sys
    ip link set lo up
fi
echo ready
# The first process of a pid namespace must stay and wait for the others, so it does not exec.
[ $$ -eq 1 ] || exec cat >/dev/null
cat >/dev/null
