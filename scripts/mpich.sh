# shellcheck shell=bash
# `./dev bench mpich`: our windows beside those of MPICH's ch4:ofi, in pairs. Read by scripts/bench.sh, whose current
# folder is the root of the repository.
#
# MPICH comes as the wheel that its own project publishes on PyPI, into an environment of its own under target. Its
# libfabric serves both sides.

mpich_dir=target/mpich
mpich_version=5.0.2

# Says why MPICH cannot be had here; nothing when it can.
mpich_missing() {
    [[ $(uname -m) == x86_64 ]] || { echo "the wheel is for x86-64, not $(uname -m)"; return; }
    command -v python3 >/dev/null || { echo "python3 is missing"; return; }
    local venv=$mpich_dir/venv log=$mpich_dir/pip.log
    mkdir -p "$mpich_dir/bin"
    [[ -x $venv/bin/python ]] || python3 -m venv "$venv" >"$log" 2>&1 || { echo "python3 -m venv failed, see $log"; return; }
    [[ $("$venv/bin/python" -m pip show mpich 2>/dev/null | sed -n 's/^Version: //p') == "$mpich_version" ]] ||
        timeout 300 "$venv/bin/python" -m pip install --quiet --only-binary :all: "mpich==$mpich_version" >"$log" 2>&1 ||
        { echo "mpich $mpich_version cannot be installed from PyPI, see $log"; return; }
    [[ -e $venv/lib/mpich/libfabric.so.1 ]] || echo "the wheel carries no libfabric"
}

# mpich_compile_theirs NAME SOURCE [options]: a program for MPICH.
mpich_compile_theirs() {
    "$mpich_dir/venv/bin/mpicc" -std=gnu11 -O2 -pthread -o "$mpich_dir/bin/$1" "${@:2}"
}

# mpich_compile NAME SOURCE: a program for each side.
mpich_compile() {
    local release=${CARGO_TARGET_DIR:-target}/release
    mpich_compile_theirs "$1" "$2" -DMPI_HAS_NO_MESSAGES &&
        cc -std=gnu11 -O2 -pthread -Ibenches/mpich/shim -Ihost-stub/c/include -o "$mpich_dir/bin/$1-ours" "$2" \
            -L"$release" -Wl,-rpath,"$(readlink -f "$release")" -lhost_stub
}

# How many flushes return before a put is at its target, on either side.
mpich_visible() {
    local libfabric=$1 note=$mpich_dir/note provider same_node
    echo
    for provider in shm tcp; do
        rm -f "$note"
        echo "MPICH over $provider:"
        FI_PROVIDER=$provider FI_TCP_IFACE=lo MPIR_CVAR_CH4_NETMOD=ofi MPIR_CVAR_NOLOCAL=1 \
            timeout 60 "$mpich_dir/venv/bin/mpiexec" -n 2 "$mpich_dir/bin/visible" "$note" || return 1
    done
    for provider in shm 'tcp;ofi_rxm'; do
        rm -f "$note"
        echo "ours over $provider:"
        # Over TCP nothing goes by shared memory, as between nodes.
        same_node=off
        [[ $provider != shm ]] || same_node=auto
        LD_LIBRARY_PATH=$libfabric:${LD_LIBRARY_PATH:-} timeout 60 "$target/release/host-stub" launch -n 2 \
            --provider "$provider" --mca host_win_table btl --mca btl_ofi_same_node "$same_node" -- "$mpich_dir/bin/visible-ours" "$note" || return 1
    done
    rm -f "$note"
}

# The libfabric that our side loads when told of a folder, which has to be the one in it. The plugin opens it when it runs, so the
# dynamic loader is asked, and not the file.
mpich_ours_loads() {
    local release=${CARGO_TARGET_DIR:-target}/release loaded
    loaded=$(LD_DEBUG=files LD_LIBRARY_PATH=$1:${LD_LIBRARY_PATH:-} "$release/host-stub" info --provider shm 2>&1 |
        sed -n 's/.*calling init: \(.*\/libfabric\.so\.1[^ ]*\)$/\1/p' | tail -n 1)
    if [[ -z $loaded || $(readlink -f "$loaded") != "$1"/* ]]; then
        echo "bench mpich: our side would load ${loaded:-no libfabric}, not that of $1: not the same libfabric" >&2
        return 1
    fi
    echo "$loaded"
}

# The version that a libfabric says of itself.
mpich_libfabric_version() {
    python3 - "$1/libfabric.so.1" <<'PYTHON' || echo unknown
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
library.fi_tostr.restype = ctypes.c_char_p
FI_TYPE_VERSION = 18
print(library.fi_tostr(ctypes.byref(ctypes.c_int()), FI_TYPE_VERSION).decode().splitlines()[0].removeprefix("libfabric: "))
PYTHON
}

# mpich_bench [options of benches/mpich/compare.py]: skips, with the reason, where MPICH cannot be had.
mpich_bench() {
    local why libfabric loaded version code=0
    why=$(mpich_missing)
    if [[ -n $why ]]; then
        echo "bench mpich: skipped, $why"
        return
    fi
    cargo build --release -p host-stub-command -p host-stub-c -p btl-ofi-plugin
    libfabric=$(readlink -f "$mpich_dir/venv/lib/mpich")
    loaded=$(mpich_ours_loads "$libfabric") || return 1
    version=$(mpich_libfabric_version "$libfabric")
    echo "both sides load $loaded ($version)"
    mpich_compile rma_bench benches/openmpi/rma_bench.c
    mpich_compile visible benches/mpich/visible.c
    mkdir -p target/bench
    python3 benches/mpich/compare.py --mpiexec "$mpich_dir/venv/bin/mpiexec" --theirs "$mpich_dir/bin/rma_bench" \
        --host "$target/release/host-stub" --ours "$mpich_dir/bin/rma_bench-ours" --libfabric "$libfabric" \
        --version "$mpich_version" --libfabric-version "$version" --json target/bench/mpich.json "$@" || code=$?
    mpich_visible "$libfabric" || code=$?
    return "$code"
}
