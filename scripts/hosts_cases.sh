# shellcheck shell=bash
# The cases of `./dev hosts test`, sourced after hosts.sh. Each case is a function that runs a job and checks the job's
# output. The last output is a table: case, program and launcher, provider, result. btl-ofi/core/tests/hosts.rs tests the
# transport alone between hosts: interfaces, addresses, process ids of containers and clones, rails.
#
#   hosts_test [test | short]    short: what fits into three minutes

hosts_rows=()
hosts_failures=0

# hosts_row CASE ROUTE PROVIDER RESULT
hosts_row() { printf '%-40s %-18s %-12s %s' "$@"; }

# hosts_case NAME PROGRAM PROVIDER COMMAND...: runs a case, keeps its output, and adds a row.
hosts_case() {
    local name=$1 route="$2, $hosts_launcher" provider=$3 status=0 result begin=$SECONDS log
    shift 3
    log=$hosts_logs/$(printf '%s, %s, %s' "$name" "$route" "$provider" | tr -c 'a-zA-Z0-9\n' _).log
    # The case runs in the background, because bash handles no signal while it runs a command in the
    # foreground, and without the pipe that keeps hosts alive.
    { exec {hosts_life}>&-; "$@"; } >"$log" 2>&1 &
    hosts_job=$!
    wait "$hosts_job" || status=$?
    hosts_job=
    if [ $status -eq 0 ]; then
        result="ok ($((SECONDS - begin)) s)"
    else
        result="FAIL ($status, $log)"
        hosts_failures=$((hosts_failures + 1))
    fi
    hosts_rows+=("$(hosts_row "$name" "$route" "$provider" "$result")")
    printf '%s\n' "${hosts_rows[-1]}"
    [ $status -eq 0 ] || tail -12 "$log" | cut -c1-300 | sed 's/^/      /'
}

# hosts_says STATUS TEXT COMMAND...: the command ends with success (0) or failure (1), in time, and prints the text.
hosts_says() {
    local wanted=$1 text=$2 out status=0
    shift 2
    out=$("$@" 2>&1) || status=$?
    printf '%s\nended with %d; expected: %s\n' "$out" "$status" "$text"
    # The statuses 124 and 137 say that the command hung, and that the limit ended it.
    [ "$status" -ne 124 ] && [ "$status" -ne 137 ] && [ $((status != 0)) -eq "$wanted" ] && grep -q "$text" <<<"$out"
}

hosts_hello() {
    local provider=$1 ranks=$2
    shift 2
    hosts_says 0 "^hello_window: ok, $ranks ranks" hosts_mpi "$provider" "$ranks" "$@" "$openmpi_dir/bin/hello_window"
}

# hosts_windows RANKS PROGRAM [mpirun options]: windows by osc/ofi_rs, with no option but the folder of the component.
hosts_windows() {
    local ranks=$1 program=$2
    shift 2
    hosts_says 0 "^$program: ok, $ranks ranks" hosts_mpirun -n "$ranks" --host "h1:$((ranks / 2)),h2:$((ranks / 2))" \
        --mca mca_base_component_path "$openmpi_component:$openmpi_system" --mca osc_ofi_rs_verbose 1 "$@" "$openmpi_dir/bin/$program" |
        tee "$hosts_logs/windows" && grep -q 'osc/ofi_rs: serves a window' "$hosts_logs/windows"
}

hosts_check() {
    local provider=$1 ranks=$2 suite=$3
    shift 3
    HOSTS_LIMIT=${HOSTS_LIMIT:-150} hosts_says 0 '^[1-9][0-9]* passed, 0 failed' hosts_stub "$provider" "$ranks" "$suite" "$@"
}

# Tests both doors over one provider.
hosts_both() {
    local name=$1 provider=$2
    shift 2
    hosts_case "$name" 'Open MPI' "$provider" hosts_hello "$provider" 4 "$@"
    hosts_extra=("$@")
    hosts_case "$name" host-stub "$provider" hosts_check "$provider" 4 rma --only put/contiguous
    hosts_extra=()
}

# A rank dies: mpirun ignores the death, and the component must end the job.
hosts_killed() {
    # With --enable-recovery, mpirun itself returns 0.
    hosts_says 0 'ending the job' hosts_mpi "$1" 2 --enable-recovery "$openmpi_dir/bin/killed_peer"
}

# hosts_cut_under PROGRAM SECONDS OUTPUT JOB...: runs a job. Once the program is ready, takes eth1 of h2 down for SECONDS, or
# until the job ends if SECONDS is 0. Prints the job's output, and returns its status.
hosts_cut_under() {
    local program=$1 away=$2 log=$3 tries status=0 job
    shift 3
    : >"$log"
    "$@" >"$log" 2>&1 &
    job=$!
    for ((tries = 0; tries < 300; ++tries)); do
        ! grep -q "$program: ready" "$log" || break
        sleep 0.1
    done
    hosts_ip h2 link set eth1 down
    if [ "$away" -eq 0 ]; then
        wait "$job" || status=$?
    else
        sleep "$away"
    fi
    hosts_ip h2 link set eth1 up
    namespaces_await "${hosts_pids[h2]}" eth1
    hosts_ip h2 address add 10.77.0.12/24 dev eth1 2>/dev/null || true
    [ "$away" -eq 0 ] || wait "$job" || status=$?
    cat "$log"
    return $status
}

# hosts_cut PROGRAM PROVIDER SECONDS LIMIT: eth1 of h2 goes down and comes back while a job runs with a limit of LIMIT
# seconds: the job reports the cut, and loses nothing.
hosts_cut() {
    local program=$1 provider=$2 away=$3 limit=$4 log=$hosts_logs/cut
    HOSTS_LIMIT=100 hosts_cut_under "$program" "$away" "$log" \
        hosts_mpi "$provider" 2 "$openmpi_dir/bin/$program" "$limit" &&
        grep -q "^$program: ok, 2 ranks" "$log" &&
        grep -q 'has not answered for 1[0-9] s' "$log" && grep -q 'answers again' "$log"
}

# hosts_given_up PROGRAM PROVIDER: a cut with a peer timeout, at which the job ends.
hosts_given_up() {
    local program=$1 provider=$2 log=$hosts_logs/given_up status=0
    HOSTS_LIMIT=60 hosts_cut_under "$program" 0 "$log" \
        hosts_mpi "$provider" 2 --mca btl_ofi_peer_timeout 3000 "$openmpi_dir/bin/$program" 50 || status=$?
    [ "$status" -ne 0 ] && [ "$status" -ne 124 ] && [ "$status" -ne 137 ] && grep -q 'btl_ofi_peer_timeout 3000' "$log"
}

# Without a provider that can serve, the reason is printed before Open MPI's MPI_ERR_WIN. Tests also a job without
# btl/tcp.
hosts_test_provider() {
    hosts_case 'no provider named' 'Open MPI' '' hosts_hello '' 2
    local provider
    for provider in 'tcp;ofi_rxm' net sockets; do
        HOSTS_BTL=self,vader hosts_case 'messages too, btl_ofi_mode 2' 'Open MPI' "$provider" hosts_hello "$provider" 4 \
            --mca btl_ofi_mode 2
    done
}

# The component must not use an address that every host has.
hosts_test_docker() {
    local name
    for name in h1 h2; do namespaces_give_docker "${hosts_pids[$name]}"; done
    for name in hello_window osc_calls attached; do
        hosts_case "docker0 on every host, $name" 'osc/ofi_rs' '' hosts_windows 4 "$name"
    done
    hosts_case 'docker0 on every host, net named' 'osc/ofi_rs' net hosts_windows 4 osc_calls --mca btl_ofi_provider_include net
    for name in h1 h2; do
        hosts_ip "$name" link delete outside
        hosts_ip "$name" link delete docker0
    done
}

hosts_test_shm() {
    hosts_case 'shm named across hosts' 'Open MPI' shm hosts_says 1 'connects processes of one node only' \
        hosts_mpi shm 2 "$openmpi_dir/bin/hello_window"
    hosts_case 'shm named across hosts' host-stub shm hosts_says 1 'connects processes of one node only' \
        hosts_stub shm 2 rma
}

# Two ranks run on each of two hosts. Ranks of one host use memory, other ranks use the provider. The provider
# sockets is too slow for all suites.
hosts_test_mixed() {
    local provider suite
    for provider in 'tcp;ofi_rxm' net sockets; do
        hosts_case '2+2 ranks, suite rma' host-stub "$provider" hosts_check "$provider" 4 rma
    done
    for suite in tables coll crt device; do
        hosts_case "2+2 ranks, suite $suite" host-stub 'tcp;ofi_rxm' hosts_check 'tcp;ofi_rxm' 4 "$suite"
    done
}

# Tests networks with frames of 9000 bytes.
hosts_test_jumbo() {
    local name i
    for i in 0 1; do
        for name in h1 h2; do
            hosts_ip "$name" link set "eth$i" mtu 9000
            hosts_ip head link set "p$i$name" mtu 9000
        done
        hosts_ip head link set "br$i" mtu 9000
    done
    hosts_both 'an MTU of 9000' net
}

# Tests the other launchers of host-stub, shortly and over one provider, because mpirun's cases test all providers.
hosts_test_launchers() {
    local kind=$1 why provider hosts_launcher
    for hosts_launcher in prterun srun; do
        why=$("hosts_${hosts_launcher}_missing")
        [ -n "$why" ] || [ "$hosts_launcher" != srun ] || why=$(hosts_srun_start)
        if [ -n "$why" ]; then
            hosts_rows+=("$(hosts_row '2+2 ranks' "host-stub, $hosts_launcher" '' "skipped: $why")")
            printf '%s\n' "${hosts_rows[-1]}"
            continue
        fi
        hosts_case '2+2 ranks, suite crt' host-stub 'tcp;ofi_rxm' hosts_check 'tcp;ofi_rxm' 4 crt
        hosts_case '2+2 ranks, put' host-stub 'tcp;ofi_rxm' hosts_check 'tcp;ofi_rxm' 4 rma --only put/contiguous
        if [ "$kind" = test ]; then
            for provider in 'tcp;ofi_rxm' net; do
                hosts_case '2+2 ranks, suite rma' host-stub "$provider" hosts_check "$provider" 4 rma
            done
            hosts_case '2+2 ranks, suite coll' host-stub 'tcp;ofi_rxm' hosts_check 'tcp;ofi_rxm' 4 coll
            for provider in net sockets; do
                hosts_case '2+2 ranks, put' host-stub "$provider" hosts_check "$provider" 4 rma --only put/contiguous
            done
        fi
        [ "$hosts_launcher" != srun ] || HOSTS_SLURM_MPI=none hosts_case 'without PMIx' host-stub 'tcp;ofi_rxm' \
            hosts_says 1 'use .srun --mpi=pmix' hosts_stub 'tcp;ofi_rxm' 4 rma
    done
}

hosts_test() {
    local provider kind=$1
    # shellcheck source=scripts/hosts_launchers.sh
    . scripts/hosts_launchers.sh
    openmpi_build
    hosts_logs=$openmpi_dir/hosts
    mkdir -p "$hosts_logs"
    for provider in hello_window killed_peer cut_link waits_only osc_calls; do openmpi_compile "tests/openmpi/$provider.c"; done
    openmpi_compile tests/clients/attached.c
    cc -O2 -shared -fPIC -o "$openmpi_dir/clone.so" tests/hosts/clone.c
    hosts_make 2
    hosts_test_shm
    hosts_test_provider
    hosts_test_docker
    # host-stub has process ids of its own to look at.
    hosts_both 'clones with one boot id' 'tcp;ofi_rxm' -x "LD_PRELOAD=$PWD/$openmpi_dir/clone.so"
    for provider in 'tcp;ofi_rxm' net sockets; do
        hosts_case 'a rank killed on another host' 'Open MPI' "$provider" hosts_killed "$provider"
    done
    hosts_case 'a link cut, with a peer timeout' 'Open MPI' 'tcp;ofi_rxm' hosts_given_up cut_link 'tcp;ofi_rxm'
    hosts_case 'a link cut, ranks only wait' 'Open MPI' 'tcp;ofi_rxm' hosts_given_up waits_only 'tcp;ofi_rxm'
    if [ "$kind" = test ]; then
        for provider in net sockets; do
            hosts_case 'a link cut, with a peer timeout' 'Open MPI' "$provider" hosts_given_up cut_link "$provider"
        done
        hosts_case 'a link cut, ranks only wait' 'Open MPI' net hosts_given_up waits_only net
        for provider in 'tcp;ofi_rxm' net; do
            hosts_case 'a link cut for 12 s' 'Open MPI' "$provider" hosts_cut cut_link "$provider" 12 10
            hosts_case 'a link cut for 15 s, ranks only wait' 'Open MPI' "$provider" hosts_cut waits_only "$provider" 15 32
        done
        # The threads of sockets take the processors from the process that counts the seconds.
        hosts_case 'a link cut for 20 s' 'Open MPI' sockets hosts_cut cut_link sockets 20 18
        hosts_test_mixed
    fi
    hosts_test_launchers "$kind"
    # The last case, because the networks keep these large frames.
    hosts_test_jumbo
    hosts_end
    printf '\n'
    printf '%s\n' "$(hosts_row case 'program, launcher' provider result)" "${hosts_rows[@]}"
    printf '%d cases, %d failed\n' ${#hosts_rows[@]} $hosts_failures
    [ $hosts_failures -eq 0 ]
}
