# Functions of `./dev openmpi`: build the component for the installed Open MPI, and run programs that show that it
# works. Sourced by `dev` with bash, at the root of the repository, under `set -euo pipefail`.
#
#   openmpi_hello         install what is missing, build, say what a user needs to set, run a hello window
#   openmpi_calls         calls within a node or over TCP beside every other transport of Open MPI, and MPICH
#   openmpi_programs      applications, threads, start-up: likewise, on one node and over TCP
#   openmpi_test and openmpi_test_short are in openmpi_checks.sh

openmpi_dir=target/openmpi
openmpi_failures=0

# The place of the jobs, and what differs between series; openmpi_root.sh changes these for a Debian of its own. The first is a
# command that enters the place, the folders and files are named as the jobs see them.
openmpi_enter=()
openmpi_bin=$openmpi_dir/bin
openmpi_oversubscribe=(--oversubscribe)
openmpi_near=vader
# Put before the names of checks.
openmpi_label=

openmpi_say() { printf '== %s\n' "$*"; }
openmpi_die() { printf 'openmpi: %s\n' "$*" >&2; exit 1; }

openmpi_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"
    elif command -v sudo >/dev/null; then sudo "$@"
    else openmpi_die "installing packages needs root: $*"
    fi
}

# Installs missing Debian packages. The lists are fetched first: a fresh image has none, and old lists name packages
# that mirrors no longer have.
openmpi_packages() {
    local missing=() package
    for package in "$@"; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
    done
    [ ${#missing[@]} -eq 0 ] && return
    command -v apt-get >/dev/null || openmpi_die "please install: ${missing[*]} (no apt-get here to do it)"
    openmpi_say "installing ${missing[*]}"
    { openmpi_root timeout 300 apt-get -qq update &&
        openmpi_root timeout 900 env DEBIAN_FRONTEND=noninteractive \
            apt-get install -y --no-install-recommends "${missing[@]}"; } >"$openmpi_dir/apt.log" 2>&1 ||
        { tail -5 "$openmpi_dir/apt.log" >&2; openmpi_die "apt-get failed ($openmpi_dir/apt.log)"; }
}

openmpi_setup() {
    mkdir -p "$openmpi_dir/bin"
    if ! command -v mpicc >/dev/null || ! mpicc --showme:incdirs >/dev/null 2>&1 || ! command -v mpirun >/dev/null; then
        openmpi_packages openmpi-bin libopenmpi-dev libfabric-dev libclang-dev gcc
    fi
    openmpi_version=$(ompi_info --version | sed -n 's/^Open MPI v//p')
    openmpi_series=${openmpi_version%.*}
    openmpi_system=$(ompi_info --parsable --path pkglibdir | sed 's/.*://')
    openmpi_btl_h=$(find $(mpicc --showme:incdirs) -path '*/opal/mca/btl/btl.h' -print -quit)
    # mpirun refuses root without two variables; a container often has no other user.
    if [ "$(id -u)" -eq 0 ]; then
        export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    fi
}

# Builds the component and copies it to a separate folder, because Open MPI reads every file there.
openmpi_build() {
    openmpi_setup
    openmpi_say "building for Open MPI $openmpi_version"
    MCA_BTL_OFI_SERIES=$openmpi_series build_release
    openmpi_lay_out "${CARGO_TARGET_DIR:-target}/release/libmca_btl_ofi.so" "$openmpi_dir/$openmpi_series"
    openmpi_path=$openmpi_component:$openmpi_system
}

# openmpi_lay_out LIBRARY FOLDER: copies the library as the component btl, and links it as the component osc.
openmpi_lay_out() {
    mkdir -p "$2"
    rm -f "$2"/*
    cp "$1" "$2/mca_btl_ofi_rs.so"
    ln -s mca_btl_ofi_rs.so "$2/mca_osc_ofi_rs.so"
    openmpi_component=$(cd "$2" && pwd)
}

openmpi_settings() {
    cat <<END

Open MPI's windows go over the component by this setting alone, on one node and between nodes:

  export OMPI_MCA_mca_base_component_path=$openmpi_path
  mpirun ./your_program

--mca osc_ofi_rs_verbose 1 tells which windows it serves, --mca osc_ofi_rs_priority -1 turns it off, and
--mca btl_ofi_provider_include 'tcp;ofi_rxm' names a provider. To use it as a BTL, below osc/rdma or for MPI's messages, name it
in the list of BTLs: docs/open-mpi-btl.md.
END
}

# openmpi_run PROVIDER RANKS [mpirun options] PROGRAM...: runs a program over the component, with a time
# limit.
openmpi_run() {
    local provider=$1 ranks=$2 same_node=${OPENMPI_SAME_NODE:-auto}
    shift 2
    # Over the test provider btl_ofi_same_node is off, because its operations are to be tested.
    [ "$provider" != lab ] || same_node=off
    "${openmpi_enter[@]}" timeout "${OPENMPI_LIMIT:-120}" mpirun -n "$ranks" "${openmpi_oversubscribe[@]}" --bind-to none \
        --mca mca_base_component_path "$openmpi_path" --mca osc "${OPENMPI_OSC:-rdma,sm}" \
        --mca btl "self,${OPENMPI_BTL:-$openmpi_near},ofi_rs" --mca "btl_${openmpi_near}_single_copy_mechanism" none \
        ${OPENMPI_PML:+--mca pml "$OPENMPI_PML"} --mca opal_common_ofi_provider_include "$provider" --mca btl_ofi_same_node "$same_node" "$@"
}

# openmpi_hears COMMAND...: runs a command, prints its output, and stores the output in the caller's `out`; returns its
# status.
openmpi_hears() {
    local status=0
    out=$("$@" 2>&1) || status=$?
    printf '%s\n' "$out"
    return $status
}

openmpi_compile() {
    local program=$1
    shift
    mpicc -std=gnu11 -O2 -Wall -Wextra -Wno-cast-function-type -pthread -o "$openmpi_dir/bin/$(basename "$program" .c)" \
        "$program" "$@"
}

# openmpi_check NAME COMMAND...: runs a command, keeps its output, and prints one line.
openmpi_check() {
    local name=$openmpi_label$1 log status=0
    shift
    log="$openmpi_dir/$(printf %s "$name" | tr -c 'a-zA-Z0-9\n' _).log"
    local begin=$SECONDS
    "$@" >"$log" 2>&1 || status=$?
    if [ $status -eq 0 ]; then
        printf 'ok    %s (%d s)\n' "$name" $((SECONDS - begin))
    else
        printf 'FAIL  %s (exit %d, %s)\n' "$name" "$status" "$log"
        tail -15 "$log" | sed 's/^/      /'
        openmpi_failures=$((openmpi_failures + 1))
    fi
}

# Whether two nodes can be pretended: mpirun starts a daemon for each node through a program in the place of ssh,
# which gives the daemon its own host name.
openmpi_prepare_nodes() {
    openmpi_agent=$(pwd)/$openmpi_dir/agent
    unshare --uts /bin/sh -c 'hostname one' 2>/dev/null || return 1
    cat >"$openmpi_agent" <<'END'
#!/bin/sh
node=$1
shift
exec unshare --uts /bin/sh -c 'hostname "$1"; exec /bin/sh -c "$2"' sh "$node" "$*"
END
    chmod +x "$openmpi_agent"
}

# openmpi_run_apart PROVIDER RANKS [mpirun options] PROGRAM...: half of the ranks on each of two pretended nodes. osc/rdma
# then uses the component's atomics for its locks and its state; on one node it uses the processor's.
openmpi_run_apart() {
    local provider=$1 ranks=$2
    shift 2
    # The pretended nodes share memory, unlike real nodes.
    OPENMPI_SAME_NODE=off OPENMPI_LIMIT=${OPENMPI_LIMIT:-300} OPENMPI_BTL=${OPENMPI_BTL:-$openmpi_near,tcp} openmpi_run "$provider" "$ranks" --host "one:$((ranks / 2)),two:$((ranks / 2))" --mca plm_rsh_agent "$openmpi_agent" \
        --mca mpi_yield_when_idle 1 --mca btl_tcp_if_include lo --mca oob_tcp_if_include lo "$@"
}

# The provider for tests, in a folder that jobs see as `openmpi_lab`.
openmpi_prepare_lab() {
    openmpi_lab_files=$openmpi_dir/lab
    openmpi_lab=$(pwd)/$openmpi_lab_files
    mkdir -p "$openmpi_lab_files"
    cp "${CARGO_TARGET_DIR:-target}/release/liblab_fi.so" "$openmpi_lab_files/liblab-fi.so"
}

openmpi_hello() {
    openmpi_build
    openmpi_compile tests/openmpi/hello_window.c
    openmpi_say "a window between two processes, over shm"
    openmpi_run shm 2 "$openmpi_bin/hello_window"
    openmpi_settings
}

openmpi_end() {
    [ $openmpi_failures -eq 0 ] || openmpi_die "$openmpi_failures check(s) failed; their output is in $openmpi_dir/*.log"
    openmpi_say "all checks passed"
}

# openmpi_sides PROGRAM...: compiles programs of benches/openmpi for Open MPI and, if it is available, for MPICH. Sets
# openmpi_options to the options of scripts that start jobs of all sides.
openmpi_sides() {
    local why program
    openmpi_build
    for program in "$@"; do openmpi_compile "benches/openmpi/$program.c"; done
    openmpi_options=(--bin "$openmpi_dir/bin" --component "$openmpi_component" --system "$openmpi_system")
    # shellcheck source=scripts/mpich.sh
    . scripts/mpich.sh
    why=$(mpich_missing)
    if [ -n "$why" ]; then
        openmpi_say "without MPICH: $why"
        return
    fi
    for program in "$@"; do mpich_compile_theirs "$program" "benches/openmpi/$program.c"; done
    openmpi_options+=(--mpich "$mpich_dir/venv/bin/mpiexec" --mpich-bin "$mpich_dir/bin")
}

# openmpi_calls PATH [wire.py's options]: single calls on a path, node or wire, into the file PATH.json.
openmpi_calls() {
    local path=$1
    shift
    openmpi_sides rma_bench
    python3 benches/openmpi/wire.py "${openmpi_options[@]}" --path "$path" --json "target/bench/$path.json" "$@"
}

# openmpi_programs PART [programs.py's options]: applications, threads or startup.
openmpi_programs() {
    case $1 in
        applications) openmpi_sides gups halo hash_table ;;
        threads) openmpi_sides rma_mt ;;
        startup) openmpi_sides startup ;;
    esac
    python3 benches/openmpi/programs.py "${openmpi_options[@]}" --json "target/bench/$1.json" "$@"
}

# openmpi_command [test | short | device | node ... | wire ... | applications ... | threads ... | startup ...]: what `./dev openmpi` calls.
openmpi_command() {
    case "${1:-}" in
        '') openmpi_hello ;;
        test | short)
            # shellcheck source=scripts/openmpi_checks.sh
            . scripts/openmpi_checks.sh
            if [ "$1" = test ]; then openmpi_test; else openmpi_test_short; fi
            ;;
        device)
            # shellcheck source=scripts/openmpi_checks.sh
            . scripts/openmpi_checks.sh
            openmpi_command_device
            ;;
        node | wire) openmpi_calls "$@" ;;
        applications | threads | startup) openmpi_programs "$@" ;;
        *) openmpi_die "unknown: $1 (nothing, test, short, device, node, wire, applications, threads or startup)" ;;
    esac
}
