# shellcheck shell=bash
# `./dev clients`: third-party programs that use MPI's windows, over the component and over Open MPI's own transports, on
# one host and on two. Sourced by `dev` after openmpi.sh, openmpi_checks.sh and hosts.sh.
#
#   clients_command     what `./dev clients` calls

clients_dir=target/clients
# Lines of the table, and the number of failed checks when the last line was written.
clients_rows=() clients_failed=0

# Debian's OpenCoarrays brings its own tests, compiled.
clients_coarrays=/usr/lib/x86_64-linux-gnu/open-coarrays/openmpi/bin/OpenCoarrays-*-tests

# The machine is oversubscribed, so waiting ranks yield, on both sides. hosts_mpirun sets this itself.
clients_mpi=(--mca mpi_yield_when_idle 1)

# clients_ours PLACE RANKS PROGRAM...: over the component, at the place shm, tcp or hosts.
clients_ours() {
    local place=$1 ranks=$2 options=(--mca osc_ofi_rs_verbose 1)
    shift 2
    [ "$place" = hosts ] || options+=("${clients_mpi[@]}")
    case $place in
    shm) openmpi_osc_run "$ranks" "${options[@]}" "$@" ;;
    # One host, as if each rank had its own.
    tcp) openmpi_osc_run "$ranks" "${options[@]}" --mca btl self,tcp --mca btl_ofi_same_node off "$@" ;;
    hosts) HOSTS_LIMIT=${OPENMPI_LIMIT:-120} hosts_mpirun -n "$ranks" --host "h1:$((ranks / 2)),h2:$((ranks / 2))" \
        --mca mca_base_component_path "$openmpi_component:$openmpi_system" "${options[@]}" "$@" ;;
    esac </dev/null
}

# clients_own PLACE RANKS PROGRAM...: the same over Open MPI's own components for windows.
clients_own() {
    local place=$1 ranks=$2 one=(timeout "${OPENMPI_LIMIT:-120}" mpirun --oversubscribe --bind-to none "${clients_mpi[@]}" --mca osc pt2pt)
    shift 2
    case $place in
    shm) "${one[@]}" -n "$ranks" --mca btl self,vader "$@" ;;
    tcp) "${one[@]}" -n "$ranks" --mca btl self,tcp "$@" ;;
    hosts) HOSTS_LIMIT=${OPENMPI_LIMIT:-120} hosts_mpirun -n "$ranks" --host "h1:$((ranks / 2)),h2:$((ranks / 2))" \
        --mca osc pt2pt --mca btl self,vader,tcp "$@" ;;
    esac </dev/null
}

# clients_row CLIENT PLACE RANKS OURS OWN: the results are right if no check has failed since the previous
# row.
clients_row() {
    local right=yes
    [ "$openmpi_failures" -eq $clients_failed ] || right=no
    clients_failed=$openmpi_failures
    clients_rows+=("| $1 | $2 | $3 | $4 | $5 | $right |")
}

# The time that a program printed.
clients_time() { sed -n 's/^[a-z_]*: ok, .* in *\([0-9.]*\) us .*/\1/p' "$1"; }

# clients_program NAME PLACE RANKS: a program of tests/clients, over both sides. Each run must check its own results; our run
# must use the component's windows.
clients_program() {
    local name=$1 place=$2 ranks=$3 ours=$clients_dir/$1_$2_$3_ours own=$clients_dir/$1_$2_$3_own side
    clients_ours "$place" "$ranks" "$clients_dir/$name" >"$ours" 2>&1 || { cat "$ours"; return 1; }
    clients_own "$place" "$ranks" "$clients_dir/$name" >"$own" 2>&1 || { cat "$own"; return 1; }
    for side in "$ours" "$own"; do
        grep -q "^$name: ok, $ranks " "$side" || { cat "$side"; return 1; }
    done
    grep -q 'osc/ofi_rs: serves a window' "$ours" || { cat "$ours"; return 1; }
}

clients_check_program() {
    local name=$1 place=$2 ranks=$3
    openmpi_check "$name, $ranks ranks, $place" clients_program "$@"
    clients_row "$name" "$place" "$ranks" "$(clients_time "$clients_dir/${name}_${place}_${ranks}_ours") us" \
        "$(clients_time "$clients_dir/${name}_${place}_${ranks}_own") us"
}

# clients_coarrays_own PLACE: OpenCoarrays' own tests over Open MPI's transports. The tests that pass with 3 s of processor time
# for each image are listed for the component. Others need other numbers of images, or images that fail, or make too many
# accesses under locks and take too long between hosts. increment_my_neighbor reads memory that a neighbour may be writing, and
# fails now and then.
clients_coarrays_own() {
    local place=$1 test name begin
    : >"$clients_dir/coarrays_$place"
    begin=$SECONDS
    for test in $clients_coarrays/*; do
        name=$(basename "$test")
        [[ $name != image_fail* && $name != increment_my_neighbor ]] || continue
        ! (ulimit -t 3; OPENMPI_LIMIT=60 clients_own "$place" 4 "$test") >"$clients_dir/coarrays.log" 2>&1 ||
            printf '%s\n' "$test" >>"$clients_dir/coarrays_$place"
    done
    echo $((SECONDS - begin)) >"$clients_dir/coarrays_own_$place"
    printf '%d tests pass\n' "$(wc -l <"$clients_dir/coarrays_$place")"
    [ "$(wc -l <"$clients_dir/coarrays_$place")" -ge 50 ]
}

# clients_coarrays_ours PLACE: all listed tests must pass over the component.
clients_coarrays_ours() {
    local place=$1 test failed=0 begin=$SECONDS
    while read -r test; do
        OPENMPI_LIMIT=60 clients_ours "$place" 4 "$test" >"$clients_dir/coarrays.log" 2>&1 </dev/null && continue
        printf '%s:\n' "$test"
        tail -20 "$clients_dir/coarrays.log"
        failed=$((failed + 1))
    done <"$clients_dir/coarrays_$place"
    echo $((SECONDS - begin)) >"$clients_dir/coarrays_ours_$place"
    [ $failed -eq 0 ]
}

clients_check_coarrays() {
    local place=$1
    openmpi_check "OpenCoarrays' tests, 4 images, $place, Open MPI's own" clients_coarrays_own "$place"
    openmpi_check "OpenCoarrays' tests, 4 images, $place" clients_coarrays_ours "$place"
    clients_row "OpenCoarrays' tests, $(wc -l <"$clients_dir/coarrays_$place")" "$place" 4 \
        "$(cat "$clients_dir/coarrays_ours_$place") s" "$(cat "$clients_dir/coarrays_own_$place") s, with those left out"
}

# clients_armci PLACE: the program checks its results, over both sides. Writes the seconds of each side to a
# file.
clients_armci() {
    local place=$1 side begin out=$clients_dir/armci_$1
    for side in ours own; do
        begin=$SECONDS
        "clients_$side" "$place" 4 "$openmpi_dir/bin/armci" >"${out}_$side" 2>&1 && grep -q '^armci: ok, 4 ranks' "${out}_$side" ||
            { cat "${out}_$side"; return 1; }
        echo $((SECONDS - begin)) >"${out}_${side}_seconds"
    done
    grep -q 'osc/ofi_rs: serves a window' "${out}_ours" || { cat "${out}_ours"; return 1; }
}

clients_check_armci() {
    local place=$1
    openmpi_check "ARMCI-MPI, 4 ranks, $place" clients_armci "$place"
    clients_row ARMCI-MPI "$place" 4 "$(cat "$clients_dir/armci_${place}_ours_seconds") s" "$(cat "$clients_dir/armci_${place}_own_seconds") s"
}

# The seconds that NWChem prints.
clients_nwchem_time() { sed -n 's/.*Total times *cpu:.*wall: *\([0-9.]*\)s.*/\1/p' "$1"; }

# clients_nwchem PLACE: the energy of water, compared with NWChem over Open MPI's own transports, to 1e-8
# Hartree.
clients_nwchem() {
    local place=$1 scratch=$clients_dir/nwchem input side energies
    input=$(pwd)/tests/openmpi/water.nw
    mkdir -p "$scratch"
    for side in ours own; do
        (cd "$scratch" && OPENMPI_LIMIT=200 "clients_$side" "$place" 2 nwchem.openmpi "$input") >"$clients_dir/nwchem_${place}_$side" 2>&1 ||
            { cat "$clients_dir/nwchem_${place}_$side"; return 1; }
    done
    grep -q 'osc/ofi_rs: serves a window' "$clients_dir/nwchem_${place}_ours" || return 1
    energies=$(for side in ours own; do openmpi_nwchem_energy <"$clients_dir/nwchem_${place}_$side"; done)
    printf '%s\n' "$energies"
    awk '{ e[NR] = $1 } END { d = e[1] - e[2]; exit !(NR == 2 && d < 1e-8 && d > -1e-8) }' <<<"$energies"
}

clients_check_nwchem() {
    local place=$1
    openmpi_check "NWChem, 2 ranks, $place" clients_nwchem "$place"
    clients_row 'NWChem, water' "$place" 2 "$(clients_nwchem_time "$clients_dir/nwchem_${place}_ours") s" \
        "$(clients_nwchem_time "$clients_dir/nwchem_${place}_own") s"
}

# clients_mpi4py PLACE: mpi4py's tests of windows. Open MPI's own transports have windows for all of these tests only with
# osc/rdma over them, which in 4.1 crashes in its vader emulation, so there is no comparison.
clients_mpi4py() {
    local out
    OPENMPI_LIMIT=900 openmpi_hears clients_ours "$1" 3 "$openmpi_python" "$openmpi_mpi4py_tests" -v -f -i test_rma -i test_rma_nb -i test_win || return 1
    ! grep -Eq 'FAILED|Traceback|skipped' <<<"$out" && grep -q OK <<<"$out" && grep -q 'osc/ofi_rs: serves a window' <<<"$out"
}

clients_check_mpi4py() {
    local place=$1 begin=$SECONDS
    openmpi_check "mpi4py, 3 ranks, $place" clients_mpi4py "$place"
    clients_row 'mpi4py, windows' "$place" 3 "$((SECONDS - begin)) s" 'none'
}

clients_compile() {
    mkdir -p "$clients_dir"
    mpifort -O2 -Wall -std=f2008 -J "$clients_dir" -o "$clients_dir/windows" tests/clients/windows.f90
    caf -O2 -o "$clients_dir/coarray" tests/clients/coarray.f90
    # shellcheck disable=SC2046 # a list of options
    mpicc -O2 -Wall -Wextra -o "$clients_dir/star_forest" tests/clients/star_forest.c $(pkg-config --cflags --libs PETSc)
    mpicc -O2 -Wall -Wextra -o "$clients_dir/attached" tests/clients/attached.c
    mpicc -O2 -Wall -Wextra -o "$clients_dir/global_arrays" tests/clients/global_arrays.c \
        -lga-openmpi -larmci-openmpi -lscalapack-openmpi -llapack -lblas -lgfortran -lm
}

# Every client at one place.
clients_place() {
    local place=$1 program ranks
    for program in windows coarray star_forest attached global_arrays; do
        for ranks in 2 4; do clients_check_program "$program" "$place" $ranks; done
    done
    clients_check_coarrays "$place"
    clients_check_armci "$place"
    clients_check_nwchem "$place"
    clients_check_mpi4py "$place"
}

# clients_command [PLACE...]: all places by default.
clients_command() {
    local place why
    for place in "$@"; do
        case $place in
        shm | tcp | hosts) ;;
        *) openmpi_die "clients: unknown: $place (shm, tcp, hosts, or nothing for all)" ;;
        esac
    done
    [ $# -gt 0 ] || set -- shm tcp hosts
    mkdir -p "$openmpi_dir" "$clients_dir"
    openmpi_packages gfortran libcoarrays-openmpi-dev petsc-dev pkg-config libarmci-mpi-dev \
        libglobalarrays-dev libscalapack-openmpi-dev liblapack-dev libblas-dev nwchem-openmpi
    openmpi_build
    openmpi_check "building the programs" clients_compile
    openmpi_check "building mpi4py" openmpi_mpi4py
    openmpi_compile tests/openmpi/armci.c -larmci-openmpi
    for place in "$@"; do
        if [ "$place" != hosts ]; then
            clients_place "$place"
            continue
        fi
        why=$(namespaces_obstacle)
        if [ -n "$why" ]; then
            openmpi_say "skipped, hosts cannot be made here: $why"
        else
            unset FI_TCP_IFACE FI_NET_IFACE FI_SOCKETS_IFACE FI_UDP_IFACE
            hosts_make 2
            clients_place hosts
            hosts_end
        fi
    done
    printf '\n| client | where | ranks | this component | Open MPI'"'"'s own | right |\n| --- | --- | --: | --: | --: | --- |\n'
    printf '%s\n' "${clients_rows[@]}"
    openmpi_end
}
