# shellcheck shell=bash
# `./dev hosts`: hosts out of Linux namespaces, joined by bridges, with a launcher agent for mpirun. Sourced by `dev` with
# bash, at the root of the repository, under `set -euo pipefail`.
#
#   hosts_command [test | short | bench | shell]    what `./dev hosts` calls
#
# Each host has its own network, host name, process ids, IPC, mounts, /tmp and /dev/shm. `head` has its own network and
# name; mpirun runs there and has no ranks. Two networks join all: eth0 10.88.0.0/24, eth1 10.77.0.0/24.
# All processes of a host end with the first process of its namespaces, which ends with this script in every case.

# shellcheck source=scripts/hosts_namespaces.sh
. scripts/hosts_namespaces.sh

hosts_folder=
hosts_life=
# The current case.
hosts_job=
declare -A hosts_pids=()

hosts_say() { printf '== %s\n' "$*"; }

# hosts_enter NAME COMMAND...: runs a command in a host.
hosts_enter() {
    local pid=${hosts_pids[$1]}
    shift
    # The command does not get the pipe's end that keeps hosts alive, so hosts end with this script also if
    # a command does not.
    if [ -n "$hosts_life" ]; then
        (namespaces_enter "$pid" "$@") {hosts_life}>&-
    else
        (namespaces_enter "$pid" "$@")
    fi
}

hosts_ip() { hosts_enter "$1" ip "${@:2}"; }

# hosts_start NAME: the namespaces of one host.
hosts_start() {
    local name=$1 start=namespaces_start private=(/dev/shm /tmp) each
    if [ "$name" = head ]; then
        start=namespaces_start_head private=()
    fi
    # The host must still see the files that it runs.
    for each in "$PWD" "$(readlink -f "$target")"; do
        [[ $each/ != /tmp/* ]] || private=("${private[@]/\/tmp/}")
    done
    "$start" "$name" ${private[@]:+${private[@]}} <"$hosts_folder/life" >"$hosts_folder/$name.ready" 2>>"$hosts_folder/init.log" \
        {hosts_life}>&- &
    hosts_pids[$name]=$!
    echo $! >"$hosts_folder/$name.pid"
}

# hosts_wire NAME NUMBER: joins a host to both networks of the head.
hosts_wire() {
    local name=$1 number=$2 pid=${hosts_pids[$1]} network
    for network in 0 1; do
        namespaces_wire "${hosts_pids[head]}" "p$network$name" "$pid" "eth$network"
        hosts_ip head link set "p$network$name" master "br$network"
    done
    hosts_ip "$name" address add "10.88.0.$number/24" dev eth0
    hosts_ip "$name" address add "10.77.0.$number/24" dev eth1
    namespaces_await "$pid" eth0 eth1
}

# hosts_make COUNT: the head and hosts h1, h2, ...
hosts_make() {
    local count=$1 names=(head) i name tries
    # Not in /tmp, because each host has its own.
    hosts_folder=$(mktemp -d "$(readlink -f "$target")/hosts.XXXXXX")
    trap hosts_end EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    for ((i = 1; i <= count; ++i)); do names+=("h$i"); done
    mkfifo "$hosts_folder/life"
    exec {hosts_life}<>"$hosts_folder/life"
    : >"$hosts_folder/etc_resolv"
    { echo '127.0.0.1 localhost'
        echo '10.88.0.1 head'
        for ((i = 1; i <= count; ++i)); do echo "10.88.0.$((10 + i)) h$i"; done
    } >"$hosts_folder/etc_hosts"
    for name in "${names[@]}"; do hosts_start "$name"; done
    for name in "${names[@]}"; do
        for ((tries = 0; tries < 500; ++tries)); do
            [ ! -s "$hosts_folder/$name.ready" ] || break
            kill -0 "${hosts_pids[$name]}" 2>/dev/null || break
            sleep 0.02
        done
        [ -s "$hosts_folder/$name.ready" ] || { cat "$hosts_folder/init.log" >&2; return 1; }
        # Names of the hosts, because no host reaches a name server.
        hosts_enter "$name" mount --bind "$hosts_folder/etc_hosts" /etc/hosts
        [ ! -e /etc/resolv.conf ] || hosts_enter "$name" mount --bind "$hosts_folder/etc_resolv" /etc/resolv.conf
    done
    for i in 0 1; do
        hosts_ip head link add "br$i" type bridge
        hosts_ip head link set "br$i" up
    done
    hosts_ip head address add 10.88.0.1/24 dev br0
    for ((i = 1; i <= count; ++i)); do hosts_wire "h$i" $((10 + i)); done
    cat >"$hosts_folder/agent" <<END
#!/bin/sh
# Replaces ssh: enters the host that mpirun names.
node=\$1
shift
pid=\$(cat "$hosts_folder/\$node.pid") || exit 1
cd /
exec "$PWD/scripts/hosts_namespaces.sh" enter "\$pid" /bin/sh -c "\$*"
END
    chmod +x "$hosts_folder/agent"
}

# Ends all hosts with everything in them. The exit of the script calls this function once more.
hosts_end() {
    local name
    [ -n "$hosts_folder" ] || return 0
    [ -z "$hosts_job" ] || kill "$hosts_job" 2>/dev/null || true
    [ -z "$hosts_life" ] || exec {hosts_life}>&-
    hosts_life=
    for name in "${!hosts_pids[@]}"; do
        kill -KILL "${hosts_pids[$name]}" 2>/dev/null || true
        wait "${hosts_pids[$name]}" 2>/dev/null || true
    done
    hosts_pids=()
    rm -rf "$hosts_folder"
    hosts_folder=
    trap - EXIT INT TERM
}

# The settings of a job on the hosts: MPI's own messages stay on eth0. All hosts have the same processors, but Open MPI
# counts them for each host, so the settings tell it that waiting ranks must let others run.
hosts_mpirun() {
    hosts_enter head timeout --kill-after=5 "${HOSTS_LIMIT:-60}" mpirun --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 \
        --mca plm_rsh_agent "$hosts_folder/agent" --mca plm_rsh_no_tree_spawn 1 \
        --mca oob_tcp_if_include 10.88.0.0/24 --mca btl_tcp_if_include 10.88.0.0/24 "$@" </dev/null
}

# hosts_mpi PROVIDER RANKS [mpirun options] PROGRAM...: half of the ranks on each of two hosts, over the component.
hosts_mpi() {
    local provider=$1 ranks=$2
    shift 2
    hosts_mpirun -n "$ranks" --host "h1:$((ranks / 2)),h2:$((ranks / 2))" \
        --mca mca_base_component_path "$openmpi_component:$openmpi_system" --mca osc rdma,sm \
        --mca btl "${HOSTS_BTL:-self,vader,tcp},ofi_rs" --mca btl_vader_single_copy_mechanism none \
        --mca opal_common_ofi_provider_include "$provider" "$@"
}

# hosts_stub PROVIDER RANKS SUITE [host-stub options]: the self-check under a launcher, half of the ranks on each host.
hosts_stub() {
    local provider=$1 ranks=$2 suite=$3
    shift 3
    local check=("$(readlink -f "$host")" check --suite "$suite" --provider "$provider" "$@")
    case $hosts_launcher in
    mpirun) hosts_mpirun -n "$ranks" --host "h1:$((ranks / 2)),h2:$((ranks / 2))" "${hosts_extra[@]}" "${check[@]}" ;;
    *) "hosts_$hosts_launcher" "$ranks" "${check[@]}" ;;
    esac
}
# The launcher: mpirun, prterun or srun; the functions of prterun and srun are in
# hosts_launchers.sh.
hosts_launcher=mpirun
# Options of mpirun.
hosts_extra=()

hosts_shell() {
    hosts_make "${1:-2}"
    cat <<END
Hosts ${!hosts_pids[*]}; everything ends with this shell, which is on head.
  nsenter ... into a host:  ./agent h1 COMMAND
  a job:                    mpirun --host h1:2,h2:2 --bind-to none --mca plm_rsh_agent \$PWD/agent --mca oob_tcp_if_include 10.88.0.0/24 ...
END
    (cd "$hosts_folder" && nsenter --target "${hosts_pids[head]}" --net --uts --mount --wd="$hosts_folder" -- "${SHELL:-/bin/bash}") || true
    hosts_end
}

# hosts_bench [hosts.py's options]: two hosts, and benches/openmpi/hosts.py on their head.
hosts_bench() {
    local status=0 program
    openmpi_build
    for program in rma_bench gups halo hash_table; do openmpi_compile "benches/openmpi/$program.c"; done
    # Incremental builds inline less.
    CARGO_INCREMENTAL=0 build_release --bins
    hosts_make 2
    # The command runs in the background, because bash handles no signal while it runs a command in the
    # foreground, and without the pipe that keeps hosts alive.
    { exec {hosts_life}>&-; exec nsenter --target "${hosts_pids[head]}" --net --uts --mount --wd="$PWD" -- \
        python3 benches/openmpi/hosts.py --bin "$openmpi_dir/bin" \
        --component "$openmpi_component" --system "$openmpi_system" --json target/bench/hosts.json \
        --host "$(readlink -f "$host")" --overhead "$(readlink -f "$target/release/overhead")" \
        --mpirun "mpirun --mca plm_rsh_agent $hosts_folder/agent --mca plm_rsh_no_tree_spawn 1
            --mca oob_tcp_if_include 10.88.0.0/24 --mca btl_tcp_if_include 10.88.0.0/24" "$@" </dev/null; } &
    hosts_job=$!
    wait "$hosts_job" || status=$?
    hosts_job=
    hosts_end
    printf '\nLarge puts over two links of 1 Gbit/s (btl_ofi_rails 2), beside one\n'
    CARGO_INCREMENTAL=0 cargo test --release -p btl-ofi --test hosts two_links_of_one_gigabit -- --ignored --nocapture \
        2>/dev/null | grep 'MB/s' || status=1
    return $status
}

# hosts_command [test | short | shell [HOSTS] | bench ...]: what `./dev hosts` calls.
hosts_command() {
    local why
    why=$(namespaces_obstacle)
    if [ -n "$why" ]; then
        hosts_say "skipped, hosts cannot be made here: $why"
        return 0
    fi
    # Each host chooses its interface itself.
    unset FI_TCP_IFACE FI_NET_IFACE FI_SOCKETS_IFACE FI_UDP_IFACE
    case "${1:-test}" in
    test | short)
        # shellcheck source=scripts/hosts_cases.sh
        . scripts/hosts_cases.sh
        hosts_test "${1:-test}"
        ;;
    shell) hosts_shell "${2:-2}" ;;
    bench)
        shift
        hosts_bench "$@"
        ;;
    *) echo "hosts: unknown: $1 (test, short, bench or shell)" >&2; return 2 ;;
    esac
}
