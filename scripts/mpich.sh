# shellcheck shell=bash
# MPICH, one side of the comparisons under MPI. MPICH is installed from the wheel that its project publishes on
# PyPI, into a separate environment under target. Sourced by scripts/openmpi.sh, whose current folder is the root
# of the repository.

mpich_dir=target/mpich
mpich_version=5.0.2

# Prints the reason why MPICH is not available here; nothing if MPICH is available.
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
