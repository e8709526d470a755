#!/usr/bin/env bash
# `./dev openmpi5`, `./dev openmpi6`: the component under Debian 13's Open MPI 5.0 and Debian testing's 6.0, each in a
# separate root. The first argument is the series.
#
# Makes a minimal Debian with debootstrap, builds the component on this machine against the headers of the root, runs the test
# programs and mpi4py's tests in the root, and removes everything again, also if interrupted. The script needs root (for
# debootstrap, chroot and mounts) and about 1.2 GB. `device` runs only the checks of memory of devices; `--keep` leaves the
# root for the next run; `--clean` removes it.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/build.sh
. scripts/openmpi.sh
# shellcheck source=scripts/openmpi_devices.sh
. scripts/openmpi_devices.sh

series=$1
shift
case "$series" in
    5.0) suite=trixie ;;
    6.0) suite=testing ;;
    *) openmpi_die "unknown series: $series (5.0 or 6.0)" ;;
esac
root=$(pwd)/$openmpi_dir/$suite
keep=no
. scripts/debian_root.sh
debian_environment=(OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1)

leave() {
    local status=$?
    trap '' INT TERM
    if [ $keep = yes ]; then debian_unmount; else debian_remove; fi
    exit $status
}

inside() { debian_inside "$@"; }

make_root() {
    debian_make
    if [ ! -x "$root/usr/bin/mpicc" ]; then
        # The lists of testing are valid for a week, and a mirror may be older.
        inside apt-get -o Acquire::Check-Valid-Until=false update >>"$root.log" 2>&1 ||
            openmpi_die "apt-get update failed ($root.log)"
        inside apt-get install -y --no-install-recommends openmpi-bin libopenmpi-dev libfabric1 python3-mpi4py \
            gcc libc6-dev libpmix-dev libhwloc-dev libevent-dev >>"$root.log" 2>&1 || openmpi_die "apt-get failed ($root.log)"
    fi
}

# Sets `here` to the series of this machine's Open MPI, or to nothing without one, and builds the component for
# it.
build_for_here() {
    here=
    if command -v mpicc >/dev/null && command -v ompi_info >/dev/null; then
        openmpi_build
        here=$openmpi_series system_here=$openmpi_system
    fi
}

# The component is built on this machine, because libfabric and the C library run programs that were
# built for older versions.
build() {
    local libdir
    libdir=$(dirname "$(find "$root/usr/lib" -maxdepth 2 -name libopen-pal.so | head -1)")
    openmpi_version=$(inside ompi_info --version | sed -n 's/^Open MPI v\([0-9.]*\).*/\1/p')
    openmpi_say "building for Open MPI $openmpi_version"
    MCA_BTL_OFI_SERIES=$series MCA_BTL_OFI_OMPI_PREFIX=$libdir/openmpi build_release
    openmpi_lay_out "${CARGO_TARGET_DIR:-target}/release/libmca_btl_ofi.so" "$openmpi_dir/$series"
    rm -rf "$root/opt"
    mkdir -p "$root/opt"
    cp -r "$openmpi_dir/$series" "$root/opt/component"
    cp -r tests/openmpi "$root/opt/tests"
    cp -r tests/c "$root/opt/c"
    mkdir -p "$root/opt/include"
    cp btl-ofi/openmpi/include/* plugin-api/include/*.h "$root/opt/include/"
    openmpi_prepare_fake
    cp -r "$openmpi_driver" "$root/opt/cuda"
    [ $part = all ] || return 0
    openmpi_lab
    cp -r "$openmpi_dir/lab" "$root/opt/lab"
    # The standalone host, which joins the launcher's job through PMIx.
    mkdir -p "$root/opt/host"
    cp "${CARGO_TARGET_DIR:-target}"/release/{host-stub,libbtl_ofi.so} "$root/opt/host/"
    # The folder of the other series, to show that it is refused.
    if [ "$here" = 4.1 ]; then cp -r "$openmpi_dir/4.1" "$root/opt/other"; fi
}

# run_inside PROVIDER RANKS [options] PROGRAM...
run_inside() {
    local provider=$1 ranks=$2 same_node=${OPENMPI_SAME_NODE:-auto}
    shift 2
    # Over the test provider btl_ofi_same_node is off, because its operations are to be tested.
    [ "$provider" != lab ] || same_node=off
    inside timeout "${OPENMPI_LIMIT:-120}" mpirun -n "$ranks" --map-by :oversubscribe --bind-to none -x FI_SOCKETS_PE_WAITTIME=0 \
        --mca mca_base_component_path "${OPENMPI_COMPONENT:-/opt/component}" --mca osc rdma,sm \
        --mca btl "self,${OPENMPI_BTL:-sm},ofi_rs" --mca btl_sm_single_copy_mechanism none ${OPENMPI_PML:+--mca pml "$OPENMPI_PML"} \
        --mca opal_common_ofi_provider_include "$provider" --mca btl_ofi_same_node "$same_node" "$@" 2>&1
}

program_inside() {
    local provider=$1 ranks=$2 program=$3 out
    shift 3
    openmpi_hears run_inside "$provider" "$ranks" --mca btl_ofi_verbose 1 "/opt/bin/$program" "$@" || return 1
    grep -aq "^$program: ok, $ranks ranks" <<<"$out" && grep -aEq ' [1-9][0-9]* operations posted' <<<"$out"
}

# Runs a function with pml/ob1. 6.0 prefers pml/cm over some providers, which does not use BTLs: a rank without windows would not
# progress the component.
with_ob1() { OPENMPI_PML=ob1 "$@"; }

# alone_inside PROVIDER RANKS [options] PROGRAM...: a whole job over this component, MPI_Send and collectives included.
alone_inside() {
    local provider=$1 ranks=$2
    shift 2
    OPENMPI_BTL=self with_ob1 run_inside "$provider" "$ranks" --mca btl_ofi_mode 2 "$@"
}

sent_alone_inside() {
    local provider=$1 out
    openmpi_hears alone_inside "$provider" 3 /opt/bin/sent_alone || return 1
    grep -aq '^sent_alone: ok, 3 ranks' <<<"$out"
}

# refusal_inside PROVIDER PART [options]: as openmpi_refusal, in the root.
refusal_inside() {
    local provider=$1 part=$2 out
    shift 2
    openmpi_hears with_ob1 run_inside "$provider" 2 "$@" /opt/bin/refusals "$part" || return 1
    grep -aq '^refusals: ok, 2 ranks' <<<"$out"
}

# Threads may begin to call at any time.
expects_threads_inside() {
    local out
    openmpi_hears program_inside shm 2 hello_window || return 1
    grep -aq 'calls may overlap' <<<"$out" && ! grep -aq 'calls do not overlap' <<<"$out"
}

# window_without_inside [options]: a window with a rank that does not have the component, so that messages carry its operations.
window_without_inside() {
    run_inside shm 3 "$@" sh -c 'case $PMIX_RANK in 2) export OMPI_MCA_btl=self,sm ;; esac; exec /opt/bin/hello_window'
}

# Without messages the job ends with a line that names the remedy, and the remedy works.
advises_inside() {
    local out status=0 advice
    out=$(window_without_inside --mca btl_ofi_mode 0) || status=$?
    printf '%s\nended with %d\n' "$out" $status
    [ $status -ne 0 ] && [ $status -ne 124 ] && ! grep -aq 'Segmentation' <<<"$out" &&
        grep -aq "set btl_ofi_mode to 2 .*, set btl_ofi_rs_latency higher" <<<"$out" || return 1
    for advice in "btl_ofi_mode 2" "btl_ofi_mode 0 --mca btl_ofi_rs_latency 1000"; do
        # shellcheck disable=SC2086
        out=$(window_without_inside --mca $advice) || { printf '%s\n' "$out"; return 1; }
        printf '%s\n' "$out"
        grep -aq '^hello_window: ok, 3 ranks' <<<"$out" || return 1
    done
}

# As openmpi_lab_program, in the root.
lab_program_inside() {
    local ranks=$1 program=$2 out pass=() pair
    shift 2
    rm -f "$root"/opt/lab/report "$root"/opt/lab/stats
    for pair in FI_PROVIDER_PATH=/opt/lab LAB_REPORT=/opt/lab/report LAB_STATS=/opt/lab/stats "$@"; do
        pass+=(-x "$pair")
    done
    openmpi_hears run_inside lab "$ranks" --mca btl_ofi_verbose 1 "${pass[@]}" "/opt/bin/$program" || return 1
    cat "$root/opt/lab/stats"
    if [ -s "$root/opt/lab/report" ]; then cat "$root/opt/lab/report"; return 1; fi
    grep -aq "^$program: ok, $ranks ranks" <<<"$out" && grep -q '^end .*faults=[1-9]' "$root/opt/lab/stats"
}

# A peer that is killed: a failure and a message. Only a hang is ended by the limit (124).
survives_kill_inside() {
    local provider=$1 out status=0 begin=$SECONDS
    out=$(OPENMPI_LIMIT=50 run_inside "$provider" 2 /opt/bin/killed_peer) || status=$?
    printf '%s\nended after %d s with %d\n' "$out" $((SECONDS - begin)) $status
    [ $status -ne 0 ] && [ $status -ne 124 ] && grep -aq 'rank 1 is killed' <<<"$out" && ! grep -aq 'never heard' <<<"$out"
}

# The same if mpirun does not end the job itself: the component's error callback must end it.
ends_job_inside() {
    local provider=$1 out status=0 begin=$SECONDS
    out=$(OPENMPI_LIMIT=50 run_inside "$provider" 2 --enable-recovery /opt/bin/killed_peer) || status=$?
    printf '%s\nended after %d s with %d\n' "$out" $((SECONDS - begin)) $status
    [ $status -ne 124 ] && grep -aq 'process 1.*ending the job' <<<"$out" && ! grep -aq 'never heard' <<<"$out"
}

# Several peers are killed one after the other: each is reported.
reports_each_inside() {
    local provider=$1 out
    OPENMPI_LIMIT=100 openmpi_hears with_ob1 run_inside "$provider" 4 --enable-recovery /opt/bin/lost_peers || true
    grep -aq '^lost_peers: ok, 4 ranks' <<<"$out"
}

mpi4py_inside() {
    local provider=$1 ranks=$2 out
    OPENMPI_LIMIT=1800 openmpi_hears run_inside "$provider" "$ranks" python3 /opt/mpi4py/test/main.py -v -f \
        -i test_rma -i test_rma_nb -i test_win || return 1
    ! grep -aEq "FAILED|Traceback|skipped 'mpi-(win|rma)" <<<"$out" && grep -aq OK <<<"$out"
}

# Every test of mpi4py; under 6.0 also tests with spawned and connected processes.
mpi4py_alone_inside() {
    local provider=$1 ranks=$2 out without=(-e test_spawn -e test_dynproc)
    [ "$series" != 6.0 ] || without=()
    OPENMPI_LIMIT=1800 openmpi_hears alone_inside "$provider" "$ranks" python3 /opt/mpi4py/test/main.py -f "${without[@]}" || return 1
    ! grep -aEq "FAILED|Traceback" <<<"$out" && [ "$(grep -ac '^OK' <<<"$out")" -ge 1 ]
}

# The standalone host's check as a job of prterun, whose server is PMIx 5.
host_stub_inside() {
    local provider=$1 out
    shift
    openmpi_hears inside timeout 200 prterun -n 4 "$@" --bind-to none /opt/host/host-stub check --provider "$provider" || return 1
    grep -aq '^[1-9][0-9]* passed, 0 failed' <<<"$out"
}

shows_itself_inside() {
    local out
    out=$(inside env OMPI_MCA_mca_base_component_path=/opt/component ompi_info --param btl ofi_rs --level 9 2>&1)
    printf '%s\n' "$out"
    grep -aq "MCA btl: ofi_rs (MCA v2.1.0, API v3.3.0" <<<"$out" &&
        grep -aq "implementation.*built for Open MPI $openmpi_version" <<<"$out"
}

# ---- The component osc ----

# osc_run_inside RANKS [options] PROGRAM...: a bare mpirun, except for the folder.
osc_run_inside() {
    local ranks=$1
    shift
    inside timeout "${OPENMPI_LIMIT:-120}" mpirun -n "$ranks" --map-by :oversubscribe --bind-to none \
        --mca mca_base_component_path /opt/component "$@" 2>&1
}

# osc_inside RANKS PROGRAM [options]: the program succeeds, and this component makes its windows.
osc_inside() {
    local ranks=$1 program=$2 out
    shift 2
    openmpi_hears osc_run_inside "$ranks" --mca osc_ofi_rs_verbose 1 "$@" "/opt/bin/$program" || return 1
    grep -aq "^$program: ok, $ranks ranks" <<<"$out" && grep -aq 'osc/ofi_rs: serves a window' <<<"$out"
}

osc_shows_itself_inside() {
    local out interface=3.0.0
    [ "$series" != 6.0 ] || interface=4.0.0
    out=$(inside env OMPI_MCA_mca_base_component_path=/opt/component ompi_info --param osc ofi_rs --level 9 2>&1) || return 1
    printf '%s\n' "$out"
    grep -aq "MCA osc: ofi_rs (MCA v2.1.0, API v$interface" <<<"$out" &&
        grep -aq 'osc_ofi_rs_priority" (current value: "102"' <<<"$out"
}

# A rank is killed: calls of the others that need it return errors, and end.
osc_killed_inside() {
    local out
    openmpi_hears osc_run_inside 3 --enable-recovery /opt/bin/osc_killed || true
    [ "$(grep -ac '^osc_killed: ok, rank [02] got an error' <<<"$out")" -eq 2 ]
}

# Windows of two jobs, one of which lacks the component: all ranks leave the windows to other
# components.
osc_spawn_without_inside() {
    local out status=0
    out=$(osc_run_inside 2 --mca btl_tcp_if_include lo --mca osc_ofi_rs_verbose 1 /opt/bin/osc_spawn without) || status=$?
    printf '%s\nended with %d\n' "$out" $status
    [ $status -ne 124 ] && [ "$(grep -ac 'left to other components: rank 2 does not have this component' <<<"$out")" -ge 2 ]
}

# The component that serves windows if some rank cannot, or nobody may: osc/rdma, where osc/sm is left out. A shell gives one
# rank of the job other settings, because mpirun of 5.0.7 crashes with programs separated by colons.
osc_delegates_inside() {
    local out
    out=$(osc_run_inside 3 -x OMPI_MCA_osc=^sm sh -c 'case $PMIX_RANK in 2) export OMPI_MCA_btl_ofi_provider_include=no-such-provider OMPI_MCA_btl_ofi_same_node=off ;; esac
        exec /opt/bin/osc_name rdma') || { printf '%s\n' "$out"; return 1; }
    printf '%s\n' "$out"
    grep -aq '^osc_name: ok, 3 ranks' <<<"$out" &&
        grep -aq 'a window goes to rdma, because rank 2 cannot serve it: the transport could not be opened' <<<"$out" || return 1
    out=$(osc_run_inside 3 -x OMPI_MCA_osc=^sm sh -c 'case $PMIX_RANK in 2) export OMPI_MCA_osc=^sm,ofi_rs ;; esac
        exec /opt/bin/osc_name rdma') || { printf '%s\n' "$out"; return 1; }
    printf '%s\n' "$out"
    grep -aq '^osc_name: ok, 3 ranks' <<<"$out" || return 1
    out=$(osc_run_inside 2 --mca osc ^ofi_rs,sm /opt/bin/osc_name rdma &&
        osc_run_inside 2 --mca osc ^sm --mca osc_ofi_rs_priority 10 /opt/bin/osc_name rdma) || { printf '%s\n' "$out"; return 1; }
    [ "$(grep -ac '^osc_name: ok, 2 ranks' <<<"$out")" -eq 2 ]
}

# device_inside RANKS PROGRAM [options]: a program that uses a device, over the fake of its driver.
device_inside() {
    local ranks=$1 out
    openmpi_hears osc_inside "$@" -x LD_LIBRARY_PATH=/opt/cuda -x FAKE_CUDA_SAY=1 || return 1
    [ "$(grep -ac '^fake CUDA: [1-9].* allocations, [1-9][0-9]* copies' <<<"$out")" -eq "$ranks" ]
}

# support_inside [options]: a program finds that devices are not supported.
support_inside() {
    local out
    openmpi_hears osc_run_inside 2 -x LD_LIBRARY_PATH=/opt/cuda "$@" /opt/bin/osc_overrides 1 || return 1
    grep -aq '^osc_overrides: ok, 2 ranks' <<<"$out"
}

device_test_inside() {
    openmpi_check "$series: osc, memory of devices, 3 ranks" device_inside 3 osc_device
    openmpi_check "$series: osc, memory of devices over tcp;ofi_rxm alone" device_inside 2 osc_device --mca btl_ofi_same_node off \
        --mca btl_ofi_provider_include 'tcp;ofi_rxm'
    openmpi_check "$series: osc, misplaced memory of devices" device_inside 2 osc_misplaced
    openmpi_check "$series: osc, copy functions of the program" device_inside 2 osc_overrides
    openmpi_check "$series: osc, the level where memory of devices is off" support_inside --mca osc_ofi_rs_cuda off
}

# mpi4py's tests of windows.
osc_mpi4py_inside() {
    local ranks=$1 out
    OPENMPI_LIMIT=300 openmpi_hears osc_run_inside "$ranks" --mca osc_ofi_rs_verbose 1 python3 /opt/mpi4py/test/main.py -v -f \
        -i test_rma -i test_rma_nb -i test_win || return 1
    ! grep -aEq "FAILED|Traceback|skipped 'mpi-(win|rma)" <<<"$out" && grep -aq OK <<<"$out" && grep -aq 'osc/ofi_rs: serves a window' <<<"$out"
}

osc_test_inside() {
    local ranks program own=()
    # In 6.0 osc/ucx opens and closes UCX to answer each query, and crashes if threads make windows at once, as in osc_abuse.
    [ "$series" != 6.0 ] || own=(--mca osc ^ucx)
    openmpi_check "$series: ompi_info names the component osc" osc_shows_itself_inside
    for ranks in 1 2 3 4; do
        for program in osc_calls osc_threads; do
            openmpi_check "$series: osc, $program, $ranks ranks" osc_inside "$ranks" "$program"
        done
        # 5.0.7 fails in MPI_Session_init now and then: btl/sm does not find its file when Open MPI starts again.
        [ "$series" = 5.0 ] || openmpi_check "$series: osc, osc_sessions, $ranks ranks" osc_inside "$ranks" osc_sessions
    done
    for program in hello_window transfers atomics swaps misaligned window_life threads passive_target osc_abuse osc_polls osc_random; do
        openmpi_check "$series: osc, $program, 2 ranks" osc_inside 2 "$program" "${own[@]}"
    done
    # As between nodes: no transfer by memory, except in windows of MPI_Win_allocate_shared.
    for program in osc_calls osc_threads osc_abuse osc_random; do
        openmpi_check "$series: osc, $program, 2 ranks over tcp;ofi_rxm alone" osc_inside 2 "$program" "${own[@]}" --mca btl_ofi_same_node off \
            --mca btl_ofi_provider_include 'tcp;ofi_rxm'
    done
    openmpi_check "$series: osc, a target that computes, with the progress thread" osc_inside 3 osc_alone \
        --mca osc_ofi_rs_progress_thread 1 --mca btl_ofi_same_node off --mca btl_ofi_provider_include 'tcp;ofi_rxm'
    # 5.0 has no shared memory between jobs, and btl/tcp may not pair a sandbox's interfaces.
    openmpi_check "$series: osc, windows of two jobs" osc_inside 2 osc_spawn --mca btl_tcp_if_include lo
    openmpi_check "$series: osc, windows of two jobs, one without the component" osc_spawn_without_inside
    openmpi_check "$series: osc, a rank is killed" osc_killed_inside
    openmpi_check "$series: osc, windows go to others where a rank cannot serve them" osc_delegates_inside
    device_test_inside
    for ranks in 1 2 3 4; do
        openmpi_check "$series: osc, mpi4py, $ranks ranks" osc_mpi4py_inside "$ranks"
    done
}

# A component of 4.1 must not be used by this series: programs run as if it did not exist.
refuses_other_series() {
    local out
    inside test -f /opt/other/mca_btl_ofi_rs.so || return 1
    out=$(inside env OMPI_MCA_mca_base_component_path=/opt/other ompi_info --parsable 2>&1) || true
    grep -aE 'btl:ofi|osc:ofi' <<<"$out" || true
    ! grep -aq 'btl:ofi_rs:version.*component:0\.' <<<"$out" || return 1
    inside timeout 60 mpirun -n 2 --map-by :oversubscribe --bind-to none --mca mca_base_component_path /opt/other \
        /opt/bin/hello_window
}

# Likewise, the Open MPI of this machine, 4.1, must not use a component of this series.
refused_by_other_series() {
    local out path=$(pwd)/$openmpi_dir/$series:$system_here
    out=$(OMPI_MCA_mca_base_component_path=$path ompi_info 2>&1) || true
    grep -a 'btl' <<<"$out" || true
    ! grep -aq 'btl: ofi_rs' <<<"$out" || return 1
    timeout 60 mpirun -n 2 --oversubscribe --bind-to none --mca mca_base_component_path "$path" \
        "$openmpi_dir/bin/hello_window"
}

# The tests of the packaged version of mpi4py, from its source distribution.
fetch_mpi4py() {
    local version archive
    version=$(inside python3 -c 'import mpi4py; print(mpi4py.__version__)')
    archive=$openmpi_dir/mpi4py-$version.tar.gz
    [ -f "$archive" ] || python3 -m pip download -q --no-binary mpi4py --no-deps -d "$openmpi_dir" "mpi4py==$version"
    mkdir -p "$root/opt/mpi4py"
    tar -C "$root/opt/mpi4py" --strip-components 1 -xf "$archive"
}

main() {
    local provider ranks program loopback=() part=all
    if [ "${1:-}" = device ]; then
        part=device
        shift
    fi
    case "${1:-}" in
        --clean) debian_remove; return ;;
        --keep) keep=yes ;;
        '') ;;
        *) openmpi_die "unknown: $1 (device, --keep or --clean)" ;;
    esac
    mkdir -p "$openmpi_dir"
    trap leave EXIT
    trap 'exit 130' INT TERM
    make_root
    # Some tests look up the name of this machine.
    printf '127.0.0.1 localhost %s\n' "$(hostname)" >"$root/etc/hosts"
    [ $part = device ] || build_for_here
    build
    inside mkdir -p /opt/bin
    inside sh -ec 'for p in osc_device osc_misplaced osc_overrides; do
        mpicc -std=gnu11 -O2 -I /opt/c/cuda -I /opt/include -o /opt/bin/$p /opt/tests/$p.c -L /opt/cuda -lcuda; done'
    if [ $part = device ]; then
        device_test_inside
        openmpi_end
        return
    fi
    inside sh -ec 'for p in hello_window transfers atomics swaps misaligned window_life threads passive_target \
            killed_peer no_room sent_alone osc_abuse osc_calls osc_polls osc_random osc_threads osc_sessions osc_killed osc_name osc_spawn osc_alone; do
        mpicc -std=gnu11 -O2 -pthread -o /opt/bin/$p /opt/tests/$p.c; done'
    # The program uses inner headers, which include headers of PMIx and headers that the package
    # lacks.
    cp -r btl-ofi/openmpi/c/stand_in_50 "$root/opt/"
    inside sh -ec 'I=; for d in $(mpicc --showme:incdirs); do I="$I -I$d -I$d/openmpi"; done
        for d in /usr/lib/*/pmix2/include; do I="$I -I$d -I$d/pmix"; done
        for p in table lost_peers refusals; do
            mpicc -std=gnu11 -O2 -w $I -idirafter /opt/stand_in_50 -o /opt/bin/$p /opt/tests/$p.c -lopen-pal; done'
    openmpi_check "$series: ompi_info names the component" shows_itself_inside
    if [ "$here" = 4.1 ]; then
        openmpi_compile tests/openmpi/hello_window.c
        openmpi_check "$series: a component of 4.1 is refused" refuses_other_series
        openmpi_check "4.1: a component of $series is refused" refused_by_other_series
    else
        openmpi_say "skipped, no Open MPI 4.1 on this machine: components of 4.1 and $series under each other"
    fi
    fetch_mpi4py
    osc_test_inside
    for provider in shm 'tcp;ofi_rxm'; do
        for ranks in 2 3; do
            for program in hello_window transfers atomics swaps misaligned window_life threads; do
                openmpi_check "$series: $program, $ranks ranks, $provider" program_inside "$provider" "$ranks" "$program"
            done
        done
        openmpi_check "$series: the table called by hand, $provider" with_ob1 program_inside "$provider" 2 table ofi_rs
        openmpi_check "$series: a peer killed in an epoch, $provider" survives_kill_inside "$provider"
        openmpi_check "$series: a peer killed, mpirun looking away, $provider" ends_job_inside "$provider"
        openmpi_check "$series: two peers killed, $provider" reports_each_inside "$provider"
    done
    openmpi_check "$series: a message in mode 0" refusal_inside shm mode --mca btl_ofi_mode 0
    OPENMPI_SAME_NODE=off openmpi_check "$series: no room for long transfers" refusal_inside 'tcp;ofi_rxm' room --mca btl_ofi_mode 2
    openmpi_check "$series: a peer released while transfers to it wait" refusal_inside lab release --mca btl_ofi_mode 2 \
        -x FI_PROVIDER_PATH=/opt/lab -x LAB_FAULTS=seed=7,again=1000
    for provider in shm 'tcp;ofi_rxm'; do
        openmpi_check "$series: a request of an unknown sender, $provider" refusal_inside "$provider" sender --mca btl_ofi_mode 2
    done
    openmpi_check "$series: threads are expected" expects_threads_inside
    openmpi_check "$series: a window with a rank without the component" advises_inside
    openmpi_check "$series: passive_target, 2 ranks, shm" program_inside shm 2 passive_target
    openmpi_check "$series: memory given back is not reached through old registrations" \
        lab_program_inside 2 window_life LAB_PAGES=1 LAB_FAULTS=seed=5,again=50
    openmpi_check "$series: no room for registrations" lab_program_inside 2 no_room LAB_REGIONS=6
    for program in transfers atomics window_life; do
        openmpi_check "$series: $program, operations turned away" lab_program_inside 2 "$program" \
            LAB_FAULTS=seed=7,again=300,burst=20,delay=5,reorder=1
    done
    for provider in shm 'tcp;ofi_rxm'; do
        openmpi_check "$series: host-stub check under prterun, $provider" host_stub_inside "$provider" --map-by :oversubscribe
    done
    if openmpi_prepare_nodes; then
        cp "$openmpi_agent" "$root/opt/agent"
        # By default, the daemons of 6.0 use no loopback interface.
        [ "$series" = 6.0 ] || loopback=(--prtemca oob_tcp_if_include 127.0.0.0/8)
        openmpi_check "$series: host-stub check under prterun on two nodes" host_stub_inside 'tcp;ofi_rxm' --host one:2,two:2 \
            --prtemca plm_ssh_agent /opt/agent "${loopback[@]}"
    else
        openmpi_say "skipped, no host names of their own for processes: ranks on two nodes"
    fi
    for provider in shm 'tcp;ofi_rxm'; do
        for ranks in 1 2 3 4; do
            openmpi_check "$series: mpi4py, $ranks ranks, $provider" mpi4py_inside "$provider" "$ranks"
        done
        openmpi_check "$series: what was sent arrives without its sender, $provider" sent_alone_inside "$provider"
        openmpi_check "$series: whole mpi4py over this component alone, 2 ranks, $provider" mpi4py_alone_inside "$provider" 2
    done
    openmpi_end
}

main "$@"
