# `./dev soak`: rounds of seeds until the time is over or one fails. Sourced by `dev` with bash, at the root of the
# repository, under `set -euo pipefail`.

soak_usage() {
    cat <<'TEXT'
usage: ./dev soak [--minutes N] [--seed S] [--one core|messages|check|short|failure]

Runs thousands of random shapes and faults of the lab provider (tests/lab-provider) against their models, and
ranks that are killed or stopped, for N minutes [default: 10]. The first seed is S [default: from the clock];
the same seed makes the same faults. Ends with 1 at the first seed that fails, and says how to run it again.

  --one core      one seed through the transport alone
  --one messages  one seed through it over a provider without atomics
  --one check     one seed through `host-stub check`
  --one short     one seed through a few tests of it
  --one failure   one seed of ranks killed and stopped
TEXT
}

# The build that the soak runs on, in a folder of its own: builds and edits in the working tree do not change it
# meanwhile.
soak_build() {
    local tests file
    # Not in /tmp, because some machines run no programs from there.
    mkdir -p "$target"
    soak_files=$(mktemp -d "$(readlink -f "$target")/soak.XXXXXX")
    build_release
    for file in host-stub libbtl_ofi.so liblab_fi.so; do
        cp "$target/release/$file" "$soak_files/"
    done
    tests=$(cargo test --no-run -p btl-ofi -p integration-tests --test lab_faults --test over_lab --test lab_check --test process_failure 2>&1) ||
        { printf '%s\n' "$tests" >&2; return 1; }
    for file in lab_faults over_lab lab_check process_failure; do
        cp "$(sed -n "s|.*Executable .*(\(.*/$file-[0-9a-f]*\))$|\1|p" <<<"$tests")" "$soak_files/$file"
    done
    export INTEGRATION_FILES=$soak_files
}

# soak_test FILE TEST: one test of a file; keeps its output in case it fails.
soak_test() {
    "$soak_files/$1" --exact --nocapture "$2" >"$soak_log" 2>&1
}

# soak_run KIND SEED COUNT
soak_run() {
    case $1 in
    core) LAB_SEED=$2 LAB_SEEDS=$3 soak_test lab_faults hundreds_of_seeds ;;
    messages) LAB_SEED=$2 LAB_SEEDS=$3 soak_test over_lab lab_messages::a_hundred_seeds ;;
    check) LAB_SEED=$2 LAB_SEEDS=$3 soak_test lab_check every_fault_is_reported ;;
    short) LAB_SEED=$2 LAB_SEEDS=$3 soak_test lab_check every_fault_is_reported_in_short_runs ;;
    failure)
        CHAOS_FIRST_SEED=$2 CHAOS_SEEDS=$3 soak_test process_failure killed_ranks &&
            CHAOS_FIRST_SEED=$2 CHAOS_SEEDS=$3 soak_test process_failure stopped_ranks
        ;;
    *) return 2 ;;
    esac
}

# Adds up the summary lines so far.
soak_total() {
    awk '{
        for (i = 2; i <= NF; i++) {
            if ($i == "combinations") runs += $(i - 1)
            if ($i == "faults" && $(i + 1) == "injected,") faults += $(i - 1)
            if ($i == "operations" && $(i + 1) == "checked") operations += $(i - 1)
            if ($i == "lost:") lost += $(i + 1)
            if ($i == "signals,") signals += $(i - 1)
        }
    } END {
        printf "%d combinations run, %d faults injected, %d operations checked, %d ranks struck, lost: %d\n", runs, faults,
            operations, signals, lost
    }' "$LAB_SUMMARY"
}

soak_command() {
    local minutes=10 seed='' one='' end kind count next round=0
    while [[ $# -gt 0 ]]; do
        case $1 in
        --minutes | --seed | --one)
            [[ $# -ge 2 ]] || { soak_usage >&2; exit 2; }
            case $1 in
            --minutes) minutes=$2 ;;
            --seed) seed=$2 ;;
            --one) one=$2 ;;
            esac
            shift 2
            ;;
        -h | --help) soak_usage; exit 0 ;;
        *) soak_usage >&2; exit 2 ;;
        esac
    done
    if [[ ! $minutes =~ ^[0-9]+$ || ! ${seed:-1} =~ ^[0-9]+$ || ! ${one:-core} =~ ^(core|messages|check|short|failure)$ ]]; then
        soak_usage >&2
        exit 2
    fi
    seed=${seed:-$(date +%s)}
    soak_log=$(mktemp) LAB_SUMMARY=$(mktemp)
    export LAB_SUMMARY
    trap 'rm -rf "$soak_log" "$LAB_SUMMARY" "${soak_files:-}"' EXIT
    # Programs are built before the time begins.
    soak_build
    if [[ -n $one ]]; then
        export LAB_TRACE=${LAB_TRACE:-/dev/stderr}
        printf 'soak: one seed, %s, of %s\n' "$seed" "$one"
        count=0
        soak_run "$one" "$seed" 1 || count=$?
        cat "$soak_log"
        exit "$count"
    fi
    printf 'soak: %s minutes from seed %s\n' "$minutes" "$seed"
    end=$((SECONDS + minutes * 60)) next=$seed
    while [[ $SECONDS -lt $end ]]; do
        for kind in core messages check short failure; do
            # The length of one kind's round: some ten seconds each on two processors.
            case $kind in
            core | messages) count=300 ;;
            check) count=12 ;;
            short) count=40 ;;
            failure) count=1 ;;
            esac
            # Rounds with killed and stopped ranks take longest, and do not depend on this provider.
            [[ $kind != failure || $((round % 4)) -eq 0 ]] || continue
            if ! soak_run "$kind" "$next" "$count"; then
                tail -n 60 "$soak_log"
                printf 'soak: FAILED in round %d (%s, seeds %d to %d)\n' "$round" "$kind" "$next" $((next + count - 1))
                grep -ao '\./dev soak --one [a-z]* --seed [0-9]*' "$soak_log" | tail -n 1 |
                    sed 's/^/soak: again with: /' ||
                    printf 'soak: again with: ./dev soak --one %s --seed %d\n' "$kind" "$next"
                exit 1
            fi
        done
        next=$((next + 300)) round=$((round + 1))
        printf 'soak: %d s left, seeds to %d: %s\n' $((end > SECONDS ? end - SECONDS : 0)) $((next - 1)) "$(soak_total)"
    done
    printf 'soak: clean, %d rounds from seed %s: %s\n' "$round" "$seed" "$(soak_total)"
}
