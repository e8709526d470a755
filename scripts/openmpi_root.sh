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
# shellcheck source=scripts/openmpi_checks.sh
. scripts/openmpi_checks.sh

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
# Jobs of openmpi.sh and openmpi_checks.sh run in the root.
use_root() {
    openmpi_enter=(debian_inside)
    openmpi_bin=/opt/bin openmpi_path=/opt/component openmpi_driver=/opt/cuda openmpi_lab=/opt/lab openmpi_lab_files=$root/opt/lab
    openmpi_oversubscribe=(--map-by :oversubscribe)
    openmpi_near=sm openmpi_label="$series: "
    openmpi_launcher=prterun openmpi_host_stub=/opt/host/host-stub
    openmpi_python=python3 openmpi_mpi4py_tests=/opt/mpi4py/test/main.py openmpi_mpi4py_skips="skipped 'mpi-(win|rma)"
    openmpi_interfaces=(3.3.0 3.0.0)
    if [ "$series" = 6.0 ]; then
        openmpi_interfaces=(3.3.0 4.0.0)
        # Under 6.0 also tests with spawned and connected processes.
        openmpi_mpi4py_without=()
    fi
}

# The output of these jobs may contain bytes that are no text.
grep() { command grep -a "$@"; }

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
        openmpi_compile tests/openmpi/hello_window.c
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
    openmpi_prepare_lab
    cp -r "$openmpi_lab_files" "$root/opt/lab"
    # The standalone host, which joins the launcher's job through PMIx.
    mkdir -p "$root/opt/host"
    cp "${CARGO_TARGET_DIR:-target}"/release/{host-stub,libbtl_ofi.so} "$root/opt/host/"
    # The folder of the other series, to show that it is refused.
    if [ "$here" = 4.1 ]; then cp -r "$openmpi_dir/4.1" "$root/opt/other"; fi
}

# Threads may begin to call at any time.
expects_threads_inside() {
    local out
    openmpi_hears openmpi_program shm 2 hello_window || return 1
    grep -q 'calls may overlap' <<<"$out" && ! grep -q 'calls do not overlap' <<<"$out"
}

# window_without_inside [options]: a window with a rank that does not have the component, so that messages carry its operations.
window_without_inside() {
    openmpi_run shm 3 "$@" sh -c 'case $PMIX_RANK in 2) export OMPI_MCA_btl=self,sm ;; esac; exec /opt/bin/hello_window' 2>&1
}

# Without messages the job ends with a line that names the remedy, and the remedy works.
advises_inside() {
    local out status=0 advice
    out=$(window_without_inside --mca btl_ofi_mode 0) || status=$?
    printf '%s\nended with %d\n' "$out" $status
    [ $status -ne 0 ] && [ $status -ne 124 ] && ! grep -q 'Segmentation' <<<"$out" &&
        grep -q "set btl_ofi_mode to 2 .*, set btl_ofi_rs_latency higher" <<<"$out" || return 1
    for advice in "btl_ofi_mode 2" "btl_ofi_mode 0 --mca btl_ofi_rs_latency 1000"; do
        # shellcheck disable=SC2086
        out=$(window_without_inside --mca $advice) || { printf '%s\n' "$out"; return 1; }
        printf '%s\n' "$out"
        grep -q '^hello_window: ok, 3 ranks' <<<"$out" || return 1
    done
}

device_test_inside() {
    openmpi_check "osc, memory of devices, 3 ranks" openmpi_device 3 osc_device
    openmpi_check "osc, memory of devices over tcp;ofi_rxm alone" openmpi_device 2 osc_device --mca btl_ofi_same_node off \
        --mca btl_ofi_provider_include 'tcp;ofi_rxm'
    openmpi_check "osc, misplaced memory of devices" openmpi_device 2 osc_misplaced
    openmpi_check "osc, copy functions of the program" openmpi_device 2 osc_overrides
    openmpi_check "osc, the level where memory of devices is off" openmpi_device_support --mca osc_ofi_rs_cuda off
}

osc_test_inside() {
    local ranks program own=()
    # In 6.0 osc/ucx opens and closes UCX to answer each query, and crashes if threads make windows at once, as in osc_abuse.
    [ "$series" != 6.0 ] || own=(--mca osc ^ucx)
    for ranks in 1 2 3 4; do
        for program in osc_calls osc_threads; do
            openmpi_check "osc, $program, $ranks ranks" openmpi_osc "$ranks" "$program"
        done
        # 5.0.7 fails in MPI_Session_init now and then: btl/sm does not find its file when Open MPI starts again.
        [ "$series" = 5.0 ] || openmpi_check "osc, osc_sessions, $ranks ranks" openmpi_osc "$ranks" osc_sessions
    done
    for program in hello_window transfers atomics swaps misaligned window_life threads passive_target osc_abuse osc_polls osc_random; do
        openmpi_check "osc, $program, 2 ranks" openmpi_osc 2 "$program" "${own[@]}"
    done
    # As between nodes: no transfer by memory, except in windows of MPI_Win_allocate_shared.
    for program in osc_calls osc_threads osc_abuse osc_random; do
        openmpi_check "osc, $program, 2 ranks over tcp;ofi_rxm alone" openmpi_osc 2 "$program" "${own[@]}" --mca btl_ofi_same_node off \
            --mca btl_ofi_provider_include 'tcp;ofi_rxm'
    done
    openmpi_check "osc, a target that computes, with the progress thread" openmpi_osc 3 osc_alone \
        --mca osc_ofi_rs_progress_thread 1 --mca btl_ofi_same_node off --mca btl_ofi_provider_include 'tcp;ofi_rxm'
    # 5.0 has no shared memory between jobs, and btl/tcp may not pair a sandbox's interfaces.
    openmpi_check "osc, windows of two jobs" openmpi_osc 2 osc_spawn --mca btl_tcp_if_include lo
    openmpi_check "osc, windows of two jobs, one without the component" openmpi_osc_spawn_without
    openmpi_check "osc, a rank is killed" openmpi_osc_killed
    openmpi_check "osc, windows go to others where a rank cannot serve them" openmpi_osc_delegates
    device_test_inside
    for ranks in 1 2 3 4; do
        openmpi_check "osc, mpi4py, $ranks ranks" openmpi_osc_mpi4py "$ranks"
    done
}

# A component of 4.1 must not be used by this series: programs run as if it did not exist.
refuses_other_series() {
    local out
    inside test -f /opt/other/mca_btl_ofi_rs.so || return 1
    out=$(inside env OMPI_MCA_mca_base_component_path=/opt/other ompi_info --parsable 2>&1) || true
    grep -E 'btl:ofi|osc:ofi' <<<"$out" || true
    ! grep -q 'btl:ofi_rs:version.*component:0\.' <<<"$out" || return 1
    inside timeout 60 mpirun -n 2 --map-by :oversubscribe --bind-to none --mca mca_base_component_path /opt/other \
        /opt/bin/hello_window
}

# Likewise, the Open MPI of this machine, 4.1, must not use a component of this series.
refused_by_other_series() {
    local out path=$(pwd)/$openmpi_dir/$series:$system_here
    out=$(OMPI_MCA_mca_base_component_path=$path ompi_info 2>&1) || true
    grep 'btl' <<<"$out" || true
    ! grep -q 'btl: ofi_rs' <<<"$out" || return 1
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
    debian_trap
    make_root
    # Some tests look up the name of this machine.
    printf '127.0.0.1 localhost %s\n' "$(hostname)" >"$root/etc/hosts"
    [ $part = device ] || build_for_here
    build
    use_root
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
    openmpi_check "ompi_info names the components" openmpi_shows_itself
    if [ "$here" = 4.1 ]; then
        openmpi_check "a component of 4.1 is refused" refuses_other_series
        openmpi_check "refused by 4.1" refused_by_other_series
    else
        openmpi_say "skipped, no Open MPI 4.1 on this machine: components of 4.1 and $series under each other"
    fi
    fetch_mpi4py
    osc_test_inside
    for provider in shm 'tcp;ofi_rxm'; do
        for ranks in 2 3; do
            openmpi_programs "$provider" "$ranks" hello_window transfers atomics swaps misaligned window_life threads
        done
        openmpi_check "the table called by hand, $provider" openmpi_program "$provider" 2 table --mca pml ob1
        openmpi_check "a peer killed in an epoch, $provider" openmpi_survives_kill "$provider"
        openmpi_check "a peer killed, mpirun looking away, $provider" openmpi_ends_job "$provider"
        openmpi_check "two peers killed, $provider" openmpi_reports_each "$provider"
    done
    openmpi_refusals
    for provider in shm 'tcp;ofi_rxm'; do
        openmpi_check "a request of an unknown sender, $provider" openmpi_refusal "$provider" sender --mca btl_ofi_mode 2
    done
    openmpi_check "threads are expected" expects_threads_inside
    openmpi_check "a window with a rank without the component" advises_inside
    openmpi_programs shm 2 passive_target
    openmpi_check "memory given back is not reached through old registrations" \
        openmpi_lab_program 2 window_life LAB_PAGES=1 LAB_FAULTS=seed=5,again=50
    openmpi_check "no room for registrations" openmpi_lab_program 2 no_room LAB_REGIONS=6
    for program in transfers atomics window_life; do
        openmpi_check "$program, operations turned away" openmpi_lab_program 2 "$program" \
            LAB_FAULTS=seed=7,again=300,burst=20,delay=5,reorder=1
    done
    for provider in shm 'tcp;ofi_rxm'; do
        openmpi_check "host-stub check under prterun, $provider" openmpi_host_stub "$provider"
    done
    if openmpi_prepare_nodes; then
        cp "$openmpi_agent" "$root/opt/agent"
        # By default, the daemons of 6.0 use no loopback interface.
        [ "$series" = 6.0 ] || loopback=(--prtemca oob_tcp_if_include 127.0.0.0/8)
        openmpi_check "host-stub check under prterun on two nodes" openmpi_host_stub 'tcp;ofi_rxm' --host one:2,two:2 \
            --prtemca plm_ssh_agent /opt/agent "${loopback[@]}"
    else
        openmpi_say "skipped, no host names of their own for processes: ranks on two nodes"
    fi
    for provider in shm 'tcp;ofi_rxm'; do
        for ranks in 1 2 3 4; do
            openmpi_check "mpi4py, $ranks ranks, $provider" openmpi_mpi4py_run "$provider" "$ranks" test_rma test_rma_nb test_win
        done
        OPENMPI_RUN=openmpi_run_two_sided openmpi_check "what was sent arrives without its sender, $provider" \
            openmpi_program "$provider" 3 sent_alone
        openmpi_check "whole mpi4py over this component alone, 2 ranks, $provider" openmpi_mpi4py_whole "$provider" 2
    done
    openmpi_end
}

main "$@"
