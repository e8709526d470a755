# shellcheck shell=bash
# What `./dev bench` runs; read by dev, whose folder is the current one.

bench_die() {
    echo "dev bench: $*" >&2
    exit 1
}

bench_build() {
    cargo build --release -p btl-ofi-plugin -p lab-provider
    cargo build --release -p benches --bins
    mkdir -p target/bench benches/plots
}

# Raw libfabric, the transport and a window of the host, turn by turn.
bench_overhead() {
    local provider
    for provider in shm 'tcp;ofi_rxm'; do
        "$target/release/overhead" --provider "$provider" --output "target/bench/overhead-${provider%%;*}.json" "$@"
    done
}

# Open MPI's own component and ours, in pairs.
bench_openmpi() {
    ./dev openmpi bench "$@"
}

# MPICH's windows and ours, in pairs.
bench_mpich() {
    # shellcheck source=scripts/mpich.sh
    . scripts/mpich.sh
    mpich_bench "$@"
}

# Peers, outstanding operations, regions, threads.
bench_growth() {
    "$target/release/growth" --output target/bench/growth.json "$@"
}

bench_report() {
    "$target/release/report" target/bench --plots benches/plots
}

# bench_command [NAME | --short] ...: one of the suites, or all of them and a report.
bench_command() {
    local suite=${1:-all}
    [[ $# -eq 0 ]] || shift
    case $suite in
    all)
        bench_build
        bench_overhead
        bench_growth
        bench_openmpi
        bench_mpich --program-argument all
        bench_report
        ;;
    --short)
        bench_build
        bench_overhead --short --rounds 7
        bench_growth --short
        bench_openmpi --pairs 1 --limit 60
        bench_mpich --pairs 3
        bench_report
        ;;
    overhead | growth)
        bench_build
        "bench_$suite" "$@"
        ;;
    openmpi | mpich) "bench_$suite" "$@" ;;
    report)
        bench_build
        bench_report
        ;;
    instructions)
        cargo build --release -p btl-ofi-plugin -p lab-provider
        cargo build --release -p benches --bin instructions
        "$target/release/instructions" "$@"
        ;;
    *) bench_die "unknown: $suite (nothing, --short, overhead, growth, openmpi, mpich, instructions or report)" ;;
    esac
}
