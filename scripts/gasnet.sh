# shellcheck shell=bash
# GASNet-EX for `./dev bench node` and `./dev bench wire`: benches/openmpi/gasnet_rma.c, compiled for two of its conduits. Read by
# scripts/openmpi.sh, whose current folder is the root of the repository.
#
# GASNet comes as Debian testing packages it (libgasnet-dev), into a Debian of its own below target. The programs are linked
# statically, so that they run on this machine, without rights.

gasnet_dir=target/gasnet
gasnet_sources=(benches/openmpi/gasnet_rma.c benches/openmpi/job_clock.h)

# Makes the programs gasnet_smp and gasnet_udp, unless they are there; fails, after one line that says why, where it cannot.
gasnet_programs() {
    local source
    for source in "${gasnet_sources[@]}"; do
        # The last of the two that is made.
        [ "$gasnet_dir/gasnet_udp" -nt "$source" ] || { gasnet_make; return; }
    done
}

# A shell of its own, for its traps and what debian_root.sh defines. Its callers look at its status, so each command does, too.
gasnet_make() (
    # shellcheck disable=SC2034 # debian_root.sh reads them
    root=$(pwd)/$gasnet_dir/root suite=testing debian_environment=()
    log=$gasnet_dir/gasnet.log
    # shellcheck source=scripts/debian_root.sh
    . scripts/debian_root.sh
    debian_die() { openmpi_say "without GASNet-EX: $*"; exit 1; }
    mkdir -p "$gasnet_dir"
    trap debian_unmount EXIT
    trap 'exit 130' INT TERM
    debian_make
    if ! debian_inside sh -c 'command -v g++ && pkg-config gasnet-smp-seq gasnet-udp-seq' >"$log" 2>&1; then
        openmpi_say "libgasnet-dev and a compiler, from $mirror into $root"
        # The lists of testing are valid for a week, and a mirror may be older.
        { debian_inside timeout 300 apt-get -o Acquire::Check-Valid-Until=false -qq update &&
            debian_inside timeout 600 apt-get -qq install -y --no-install-recommends g++ pkgconf libgasnet-dev; } >"$log" 2>&1 ||
            debian_die "apt-get failed in $root ($log)"
    fi
    cp "${gasnet_sources[@]}" "$root/opt/" || debian_die "no place in $root/opt"
    for conduit in smp udp; do
        # The library of smp has a launcher by MPI, which is not used here: its functions stay unresolved.
        debian_inside sh -euc 'cd /opt && gcc -std=gnu11 -O2 -Wall -Wextra -static -Wl,--unresolved-symbols=ignore-all \
            $(pkg-config --cflags "gasnet-$1-seq") -o "gasnet_$1" gasnet_rma.c $(pkg-config --libs "gasnet-$1-seq") -lstdc++' \
            - "$conduit" >"$log" 2>&1 || debian_die "gasnet_rma.c was not compiled for $conduit ($log)"
        cp "$root/opt/gasnet_$conduit" "$gasnet_dir/" || debian_die "gasnet_$conduit was not copied"
    done
)
