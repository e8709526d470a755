# shellcheck shell=bash
# The parts of `./dev bench`; sourced by dev, whose folder is the current one.

bench_out=target/bench

# The builds are not incremental, because incremental builds inline less than the code that is to be
# measured.
export CARGO_INCREMENTAL=0

bench_die() {
    echo "dev bench: $*" >&2
    exit 1
}

# Builds the programs of the suite, with the programs and libraries that they start and load.
bench_build() {
    build_release --bins
    mkdir -p "$bench_out"
}

# bench_over FUNCTION [--provider NAME] ... [options]: calls a function with each provider and the options; with shm and
# tcp;ofi_rxm by default.
bench_over() {
    local function=$1 providers=() options=() provider
    shift
    while [[ $# -gt 0 ]]; do
        case $1 in
        --provider)
            [[ $# -ge 2 ]] || bench_die "--provider needs a name"
            providers+=("$2")
            shift
            ;;
        --provider=*) providers+=("${1#*=}") ;;
        *) options+=("$1") ;;
        esac
        shift
    done
    [[ ${#providers[@]} -gt 0 ]] || providers=(shm 'tcp;ofi_rxm')
    for provider in "${providers[@]}"; do
        "$function" "$provider" "${options[@]}"
    done
}

bench_overhead_of() {
    local provider=$1
    shift
    "$target/release/overhead" --provider "$provider" --output "$bench_out/overhead-${provider%%;*}.json" "$@"
}

# Raw libfabric, the transport and a window of the host, turn by turn; and memory that local peers map, unless only a part is
# requested.
bench_overhead() {
    bench_build
    bench_over bench_overhead_of "$@"
    case " $* " in
    *' --provider'* | *' --only'* | *' --first'*) ;;
    *) "$target/release/overhead" --provider shm --shared --only ' 8 B latency' --output "$bench_out/mapped.json" "$@" ;;
    esac
}

# Windows within a node under each of Open MPI's transports, and under MPICH, turn by turn.
bench_node() {
    ./dev openmpi node "$@"
}

# The same over TCP.
bench_wire() {
    ./dev openmpi wire "$@"
}

# Time to solution of programs on one node and over TCP, under each of Open MPI's transports, turn by turn.
bench_applications() {
    ./dev openmpi applications "$@"
}

# Rates of threads, likewise.
bench_threads() {
    ./dev openmpi threads "$@"
}

# MPI_Init to the first put, windows and MPI_Finalize over numbers of ranks, likewise.
bench_startup() {
    ./dev openmpi startup "$@"
}

# Peers, outstanding operations, regions, threads.
bench_growth() {
    bench_build
    "$target/release/growth" --output "$bench_out/growth.json" "$@"
}

# Instructions of one operation, by callgrind.
bench_instructions() {
    build_release
    mkdir -p "$bench_out"
    "$target/release/instructions" --output "$bench_out/instructions.json" "$@"
}

# One report of all measurements: report.json and report.md.
bench_report() {
    build_release --bins
    mkdir -p "$bench_out"
    "$target/release/report" "$bench_out" "$@"
}

# bench_all [--short]: every part as a separate process with a time limit. A part that fails does not stop the others,
# and the report names it as not measured.
bench_all() {
    local short=() rounds=() turns=()
    if [[ ${1:-} == --short ]]; then
        short=(--short) rounds=(--rounds 7) turns=(--turns 1)
    fi
    # Files of an earlier run do not belong to this one.
    mkdir -p "$bench_out"
    rm -f "$bench_out"/*.json "$bench_out/report.md"
    step 'bench: build' 1800 bash -euo pipefail -c '. scripts/build.sh && . scripts/bench.sh && bench_build'
    [[ ${#failed[@]} -eq 0 ]] || summary
    step 'bench: overhead' 3600 ./dev bench overhead "${short[@]}" "${rounds[@]}"
    step 'bench: growth' 3600 ./dev bench growth "${short[@]}"
    step 'bench: node' 1800 ./dev bench node "${turns[@]}"
    step 'bench: wire' 1800 ./dev bench wire
    step 'bench: applications' 1800 ./dev bench applications "${turns[@]}"
    step 'bench: threads' 900 ./dev bench threads "${turns[@]}"
    step 'bench: startup' 1800 ./dev bench startup "${turns[@]}"
    step 'bench: instructions' 900 ./dev bench instructions
    step 'bench: report' 300 ./dev bench report
    summary
}

# bench_command [NAME | --short] ...: one part, or all parts and a report.
bench_command() {
    local part=${1:-all}
    [[ $# -eq 0 ]] || shift
    # Every file names its run, so that the report can say if it has several runs.
    BENCH_RUN=${BENCH_RUN:-"$(date -u +%Y-%m-%dT%H:%M:%SZ), $(git describe --always --dirty 2>/dev/null || echo 'no commit')"}
    export BENCH_RUN
    case $part in
    all) bench_all ;;
    --short) bench_all --short ;;
    overhead | growth | node | wire | applications | threads | startup | instructions | report)
        "bench_$part" "$@"
        ;;
    *)
        bench_die "unknown: $part (nothing, --short, overhead, growth, node, wire, applications, threads, startup," \
            "instructions or report)"
        ;;
    esac
}
