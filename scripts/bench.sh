# shellcheck shell=bash
# What `./dev bench` runs; read by dev, whose folder is the current one.

bench_die() {
    echo "dev bench: $*" >&2
    exit 1
}

# bench_command NAME ...: one of the suites.
bench_command() {
    local suite=${1:-}
    [[ $# -eq 0 ]] || shift
    case $suite in
    instructions)
        cargo build --release -p btl-ofi-plugin -p lab-provider
        cargo build --release -p benches --bin instructions
        "$target/release/instructions" "$@"
        ;;
    *) bench_die "unknown: $suite (instructions)" ;;
    esac
}
