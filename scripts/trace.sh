# shellcheck shell=bash
# `./dev trace`: the trace of a halo exchange, and the cost of a trace; sourced by dev, whose folder is the current
# one.

trace_out=target/trace

# The halo exchange with two ranks whose windows use rings, as if each rank had its own node.
trace_halo() {
    rm -f "$trace_out"/halo.*
    "$target/release/host-stub" launch -n 2 --provider shm --mca host_ranks_per_node 1 \
        --mca host_trace "$trace_out/halo" -- "$trace_out/halo-program"
    "$target/release/host-stub" trace merge "$trace_out"/halo.*.* -o "$trace_out/halo.json"
    "$target/release/host-stub" trace why "$trace_out"/halo.*.* --over 1
    echo "trace: open $trace_out/halo.json in ui.perfetto.dev"
}

# trace_latency [option...]: microseconds of a put of 8 bytes and its flush.
trace_latency() {
    rm -f "$trace_out"/cost.*
    "$target/release/host-stub" bench put --np 2 --max-size 8 --seconds 1 --json "$@" >"$trace_out/cost.json"
    python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["rows"][-1]["latency_us"]["least"])' "$trace_out/cost.json"
}

# The ratio of the shortest latencies of seven runs each, in turns, because other work of the machine makes single runs
# longer.
trace_cost() {
    local way turn on off
    for way in 'shm' 'tcp;ofi_rxm --mca btl_ofi_same_node off'; do
        for turn in 1 2 3 4 5 6 7; do
            # shellcheck disable=SC2086 # a provider and its options
            on=$(trace_latency --provider $way --mca host_trace "$trace_out/cost")
            # shellcheck disable=SC2086 # likewise
            off=$(trace_latency --provider $way)
            printf '%s\n' "$on $off"
        done | python3 -c '
import sys
on, off = zip(*(map(float, line.split()) for line in sys.stdin))
print(f"trace: {sys.argv[1]}: put and flush of 8 bytes {min(on):.2f} us with a trace, {min(off):.2f} without: {min(on) / min(off):.2f}")
' "$way"
    done
    rm -f "$trace_out"/cost.*
}

trace_command() {
    mkdir -p "$trace_out"
    build_release
    cc -O2 -Ihost-stub/c/include host-stub/c/examples/halo.c -o "$trace_out/halo-program" -L"$target/release" \
        -lhost_stub "-Wl,-rpath,$(realpath "$target/release")"
    case ${1:-} in
    '')
        trace_halo
        trace_cost
        ;;
    halo | cost) "trace_$1" ;;
    *)
        echo "dev trace: unknown: $1 (nothing, halo or cost)" >&2
        exit 2
        ;;
    esac
}
