# shellcheck shell=bash
# Ranks killed and stopped under mpirun, in every kind of epoch; sourced after openmpi.sh.
#
#   openmpi_struck [SEEDS [FIRST]]    each seed is every kind, killed and stopped, over one provider after the other
#
# A job must end by itself. Then no process of the job is left, and /dev/shm is empty after the next start of the
# component: a killed rank cannot remove its segment, and mpirun leaves the others no time for it. mpirun itself would
# end a job whose rank is killed, so kills come with --enable-recovery: then the component has to detect the loss, end
# the job, and print a message. Both fates come with btl_ofi_peer_timeout: only this check finds a dead rank to which
# nothing is outstanding, such as a rank for whose post the others wait (see docs/open-mpi-btl.md).

declare -A openmpi_struck_limit=([kill]=10 [stop]=20)

# The files that dead processes left in /dev/shm, found by the ids that ranks printed.
openmpi_struck_remains() {
    local pid
    for pid in $1; do
        [ ! -e "/proc/$pid" ] || echo "process $pid"
        find /dev/shm -maxdepth 1 -name "btl_ofi.*.$pid.*"
    done
}

# openmpi_struck_run PROVIDER KIND FATE WHEN: one job. Sets openmpi_struck_pids.
openmpi_struck_run() {
    local provider=$1 kind=$2 fate=$3 when=$4 out status=0 begin=$SECONDS recovery=()
    [ "$fate" = stop ] || recovery=(--enable-recovery)
    out=$(OPENMPI_LIMIT=${openmpi_struck_limit[$fate]} openmpi_run "$provider" 3 "${recovery[@]}" \
        --mca btl_ofi_peer_timeout 600 "$openmpi_dir/bin/struck" "$kind" "$fate" "$when" 2>&1) || status=$?
    printf '%s\nended after %d s with %d\n' "$out" $((SECONDS - begin)) "$status"
    openmpi_struck_pids+=" $(sed -n 's/^rank [0-9] is //p' <<<"$out" | xargs)"
    # 124 and 137: the time limit, because the job did not end. Under recovery mpirun returns 0.
    [ "$status" -ne 124 ] && [ "$status" -ne 137 ] && grep -q '^struck$' <<<"$out" &&
        grep -q 'ending the job' <<<"$out" && ! grep -q 'never heard' <<<"$out"
}

openmpi_struck() {
    local seeds=${1:-1} first=${2:-1} seed kind fate provider when runs=0 ended=0 left
    local providers=(shm 'tcp;ofi_rxm' sockets) log=$openmpi_dir/struck.log
    openmpi_compile tests/openmpi/struck.c
    openmpi_compile tests/openmpi/hello_window.c
    openmpi_struck_pids=
    for ((seed = first; seed < first + seeds; ++seed)); do
        RANDOM=$seed
        for kind in fence pscw lock lock_all; do
            for fate in kill stop; do
                provider=${providers[$(((seed + runs) % 3))]}
                when=$((RANDOM * 3))
                # See docs/providers.md: a lock of shm stays taken if the process that holds it is killed.
                if [ "$provider" = shm ] || [ $((RANDOM % 2)) -eq 0 ]; then when=+$((when % 40)); fi
                runs=$((runs + 1))
                if openmpi_struck_run "$provider" "$kind" "$fate" "$when" >"$log" 2>&1; then
                    ended=$((ended + 1))
                else
                    cp "$log" "$openmpi_dir/struck_$runs.log"
                    echo "struck: $kind, $fate, $provider, $when (seed $seed): the job did not end as it must:"
                    tail -15 "$log" | sed 's/^/      /'
                fi
            done
        done
    done
    # The next process that uses the component removes the files.
    openmpi_run shm 1 "$openmpi_dir/bin/hello_window" >/dev/null 2>&1 || true
    # Ranks of the last job may outlive mpirun by a moment.
    for _ in {1..50}; do
        left=$(openmpi_struck_remains "$openmpi_struck_pids")
        [ -n "$left" ] || break
        sleep 0.1
    done
    printf 'ranks struck under mpirun: %d runs (fence, post-start-complete-wait, lock, lock_all; killed and stopped; ' "$runs"
    printf 'seeds from %d), %d jobs ended by themselves, left behind: %d, lost: %d\n' "$first" "$ended" \
        "$(wc -w <<<"$left")" $((runs - ended))
    [ -z "$left" ] || printf '%s\n' "$left"
    [ "$ended" -eq "$runs" ] && [ -z "$left" ]
}
