# shellcheck shell=bash
# The checks of `./dev openmpi short` and `test`, one function each; sourced after openmpi.sh.
#
#   openmpi_test_short    build, hello window, put, get and every atomic, the component under valgrind, mpi4py's
#                         test_rma with two ranks over shm
#   openmpi_test          everything that the real clients show

# shellcheck source=scripts/openmpi_devices.sh
. scripts/openmpi_devices.sh

# A run that must end with the program's own line, and must have used the component.
openmpi_program() {
    local provider=$1 ranks=$2 program=$3 out
    shift 3
    openmpi_hears ${OPENMPI_RUN:-openmpi_run} "$provider" "$ranks" --mca btl_ofi_verbose 1 "$@" "$openmpi_bin/$program" || return 1
    grep -q "^$program: ok, $ranks ranks" <<<"$out" || return 1
    # Each process prints its counts at its end; a program without operations over the component prints none.
    [ "$ranks" -eq 1 ] || grep -Eq ' [1-9][0-9]* operations posted' <<<"$out"
}

openmpi_programs() {
    local provider=$1 ranks=$2 program
    shift 2
    for program in "$@"; do
        openmpi_check "$program, $ranks ranks, $provider" openmpi_program "$provider" "$ranks" "$program"
    done
}

# Errors in the logs of valgrind whose stack leads through the component, which alone is Rust there. Errors that Open
# MPI and libfabric cause by themselves do not count.
openmpi_valgrind_errors() {
    awk '/^==[0-9]+== *$/ { if (block ~ /\.rs:[0-9]/) printf "%s\n", block; block = ""; next }
        { block = block $0 "\n" }
        END { if (block ~ /\.rs:[0-9]/) printf "%s", block }' "$@"
}

# Direct calls of the component's table (table.c), which print processes and counts.
openmpi_table() {
    local provider=$1 out
    openmpi_hears openmpi_program "$provider" 2 table || return 1
    [ "$(grep -c ': 2 peers, .* operations posted' <<<"$out")" -ge 4 ] &&
        [ "$(grep -c ': 1 peers, .* operations posted' <<<"$out")" -eq 2 ] &&
        grep -q 'endpoint 0x[0-9a-f]* is process [0-9]*\.0$' <<<"$out" && grep -q 'endpoint 0x[0-9a-f]* is process [0-9]*\.1$' <<<"$out"
}

# openmpi_refusal PROVIDER PART [mpirun options]: direct calls of the component's table that are refused (refusals.c). 6.0
# prefers pml/cm over some providers, which does not use BTLs: a rank without windows would not progress the component.
openmpi_refusal() {
    local provider=$1 part=$2 out
    shift 2
    OPENMPI_PML=ob1 openmpi_hears openmpi_run "$provider" 2 "$@" "$openmpi_bin/refusals" "$part" || return 1
    grep -q '^refusals: ok, 2 ranks' <<<"$out"
}

openmpi_refusals() {
    openmpi_check "a message in mode 0" openmpi_refusal shm mode --mca btl_ofi_mode 0
    OPENMPI_SAME_NODE=off openmpi_check "no room for long transfers" openmpi_refusal 'tcp;ofi_rxm' room --mca btl_ofi_mode 2
    # The provider for tests never has room.
    openmpi_check "a peer released while transfers to it wait" openmpi_refusal lab release --mca btl_ofi_mode 2 \
        -x "FI_PROVIDER_PATH=$openmpi_lab" -x LAB_FAULTS=seed=7,again=1000
}

# The transport is opened for concurrent threads only if threads may call at once.
openmpi_expects_threads() {
    local out
    openmpi_hears openmpi_program shm 2 hello_window || return 1
    grep -q 'calls do not overlap' <<<"$out" && ! grep -q 'calls may overlap' <<<"$out" || return 1
    out=$(openmpi_program shm 2 threads) || { printf '%s\n' "$out"; return 1; }
    grep -q 'calls may overlap' <<<"$out" && ! grep -q 'calls do not overlap' <<<"$out" || return 1
    # A thread of btl/tcp sends by any BTL.
    OPENMPI_BTL=vader,tcp openmpi_hears openmpi_program shm 2 hello_window --mca btl_tcp_progress_thread 1 || return 1
    grep -q 'calls may overlap' <<<"$out" && ! grep -q 'calls do not overlap' <<<"$out"
}

# A program under valgrind, with a log for each rank: no error's stack may lead through the
# component.
openmpi_valgrind() {
    local provider=$1 program=$2 logs=$openmpi_dir/valgrind errors
    rm -rf "$logs"
    mkdir -p "$logs"
    OPENMPI_LIMIT=300 openmpi_program "$provider" 2 "$program" valgrind --quiet --keep-debuginfo=yes --num-callers=50 \
        --leak-check=full --show-leak-kinds=definite --suppressions=tests/valgrind.supp --log-file="$logs/%p" || return 1
    [ "$(find "$logs" -type f | wc -l)" -eq 2 ] || return 1
    errors=$(openmpi_valgrind_errors "$logs"/*)
    [ -z "$errors" ] || { printf '%s\n' "$errors"; return 1; }
}

# openmpi_counts CALL KIND: the instructions of an operation inside the component, over the test provider, are at most 20
# more than the instructions of the plugin's KIND in benches/instructions.json.
openmpi_counts() {
    local call=$1 kind=$2 files=$openmpi_dir/counted out limit each
    rm -rf "$files"
    mkdir -p "$files"
    out=$(export FI_PROVIDER_PATH=$openmpi_lab
        OPENMPI_LIMIT=300 openmpi_run lab 2 -x FI_PROVIDER_PATH valgrind --quiet --tool=callgrind --collect-atstart=no \
            --callgrind-out-file="$files/%p" "--toggle-collect=*entries::$call*" "$openmpi_bin/counted" 2>&1) ||
        { printf '%s\n' "$out"; return 1; }
    limit=$(sed -n '/"lab"/,/}/s/^ *"'"$kind"'": \([0-9]*\).*/\1/p' benches/instructions.json)
    # Lines of cost follow the name of their object; the line after `calls=` has the cost of the
    # called function.
    each=$(awk '/^ob=/ { sub(/^ob=/, ""); split($0, part, " "); if (part[2]) name[part[1]] = part[2]; object = name[part[1]] }
        /^cob=/ { sub(/^cob=/, ""); split($0, part, " "); if (part[2]) name[part[1]] = part[2] }
        /^calls=/ { called = 1; next }
        /^[-+*0-9]/ { if (called) { called = 0; next } if (object ~ /mca_btl_ofi/) sum += $2 }
        END { print int(sum / 400) }' "$files"/*)
    printf '%s: %d instructions, %d through the vtable\n' "$call" "$each" "$limit"
    [ "$each" -gt 0 ] && [ "$each" -le $((limit + 20)) ]
}

# Checks that openmpi_valgrind would notice bytes that nobody wrote, put into a window.
openmpi_valgrind_notices() {
    local out
    if out=$(openmpi_valgrind shm unwritten); then
        printf '%s\n' "$out"
        return 1
    fi
    grep -q 'process_vm_writev.* points to uninitialised byte' <<<"$out" || { printf '%s\n' "$out"; return 1; }
}

# The versions of the interfaces btl and osc of Open MPI.
openmpi_interfaces=(3.1.0 3.0.0)

# openmpi_info KIND: what `ompi_info` prints of the component btl or osc.
openmpi_info() {
    "${openmpi_enter[@]}" env "OMPI_MCA_mca_base_component_path=$openmpi_path" ompi_info --param "$1" ofi_rs --level 9
}

# Both names lead to the same image, which reports its version under both.
openmpi_shows_itself() {
    local out version
    version=$(sed -n '/workspace.package/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
    openmpi_hears openmpi_info btl || return 1
    grep -q "MCA btl: ofi_rs (MCA v2.1.0, API v${openmpi_interfaces[0]}, Component v$version" <<<"$out" &&
        grep -q "btl_ofi_rs_implementation.*built for Open MPI $openmpi_version" <<<"$out" &&
        grep -q 'performance "btl_ofi_rs_ring_operations"' <<<"$out" &&
        grep -q 'btl_ofi_rs_provider_include.*synonym of: opal_common_ofi_provider_include' <<<"$out" || return 1
    openmpi_hears openmpi_info osc || return 1
    grep -q "MCA osc: ofi_rs (MCA v2.1.0, API v${openmpi_interfaces[1]}, Component v$version" <<<"$out" &&
        grep -q 'osc_ofi_rs_priority" (current value: "102"' <<<"$out"
}

# The commands of `./dev openmpi` and README, with one setting: this component makes the windows.
openmpi_readme() {
    local line out
    line=$(openmpi_settings | sed -n 's/^ *\(export OMPI_MCA_mca_base_component_path=.*\)/\1/p')
    [ -n "$line" ] || return 1
    openmpi_hears bash -c "$line; timeout 60 mpirun -n 2 --oversubscribe --mca osc_ofi_rs_verbose 1 $openmpi_bin/hello_window" || return 1
    grep -q '^hello_window: ofi_rs window, put and flush' <<<"$out" && grep -q '^hello_window: ok, 2 ranks' <<<"$out"
}

# If packages are missing, their lists are fetched before they are installed.
openmpi_fetches_lists() {
    local stubs=$openmpi_dir/stubs name
    rm -rf "$stubs"
    mkdir -p "$stubs"
    printf '#!/bin/sh\nexit 1\n' >"$stubs/dpkg-query"
    printf '#!/bin/sh\necho "apt-get $*"\n' >"$stubs/apt-get"
    printf '#!/bin/sh\nexec "$@"\n' >"$stubs/sudo"
    for name in dpkg-query apt-get sudo; do chmod +x "$stubs/$name"; done
    (openmpi_dir=$stubs PATH=$(pwd)/$stubs:$PATH openmpi_packages one two) || return 1
    cat "$stubs/apt.log"
    [ "$(cat "$stubs/apt.log")" = 'apt-get -qq update
apt-get install -y --no-install-recommends one two' ]
}

# openmpi_declares PROVIDER SUPPORTED MISSING [mpirun options]: the atomics that are declared to osc/rdma. The bits
# are btl.h's, by names without their prefix.
openmpi_declares() {
    local provider=$1 supported=$2 missing=$3 out declared name bit
    shift 3
    out=$(openmpi_run "$provider" 1 --mca btl_ofi_verbose 1 "$@" "$openmpi_bin/hello_window" 2>&1) ||
        { printf '%s\n' "$out"; return 1; }
    declared=$(sed -n 's/.*using .*, atomics \(0x[0-9a-f]*\);.*/\1/p' <<<"$out")
    printf '%s\ndeclared %s\n' "$out" "$declared"
    [ -n "$declared" ] || return 1
    for name in $supported $missing; do
        bit=$(sed -n "s/^ *MCA_BTL_ATOMIC_SUPPORTS_$name *= *\(0x[0-9a-f]*\),.*/\1/p" "$openmpi_btl_h")
        [ -n "$bit" ] || { printf 'no bit for %s\n' "$name"; return 1; }
        case " $supported " in
            *" $name "*) [ $((declared & bit)) -ne 0 ] || { printf '%s is not declared\n' "$name"; return 1; } ;;
            *) [ $((declared & bit)) -eq 0 ] || { printf '%s is declared\n' "$name"; return 1; } ;;
        esac
    done
}

# The provider for tests without MIN, MAX, OR, AND and XOR, and without 32-bit words, by libfabric's numbers.
openmpi_lacking='*:*:0,*:*:1,*:*:6,*:*:7,*:*:9,*:4:*,*:5:*'

openmpi_declares_less() {
    FI_PROVIDER_PATH=$openmpi_lab LAB_WITHOUT=$openmpi_lacking openmpi_declares lab 'ADD SWAP CSWAP' \
        'AND OR XOR MIN MAX 32BIT' -x FI_PROVIDER_PATH -x LAB_WITHOUT
}

# The standalone host's check as a job of this launcher.
openmpi_launcher=mpirun
openmpi_host_stub=${CARGO_TARGET_DIR:-target}/release/host-stub
openmpi_host_stub() {
    local provider=$1 out
    shift
    openmpi_hears "${openmpi_enter[@]}" timeout 200 "$openmpi_launcher" -n 4 "${openmpi_oversubscribe[@]}" --bind-to none "$@" \
        "$openmpi_host_stub" check --provider "$provider" || return 1
    grep -q '^[1-9][0-9]* passed, 0 failed' <<<"$out"
}

openmpi_host_stub_apart() {
    OMPI_MCA_btl_ofi_same_node=off openmpi_host_stub "$1" --host one:2,two:2 --mca plm_rsh_agent "$openmpi_agent" --mca oob_tcp_if_include lo
}

# A parameter that a user gave by another source or name must arrive, and must be shown.
openmpi_hears_parameters() {
    local out file=$openmpi_dir/parameters.conf
    printf '%s\n' 'opal_common_ofi_provider_exclude = udp' 'btl_ofi_peer_check_interval = 90' 'btl_ofi_eager_limit = 8192' >"$file"
    out=$(OMPI_MCA_btl_ofi_num_cq_read=7 OMPI_MCA_btl_ofi_put_limit=65536 OMPI_MCA_btl_ofi_verbose=3 OMPI_MCA_opal_common_ofi_provider_include=shm \
        OMPI_MCA_mca_base_param_files=$(pwd)/$file \
        OMPI_MCA_mca_base_component_path=$openmpi_path \
        ompi_info --param btl ofi_rs --level 9) || return 1
    grep 'current value' <<<"$out"
    grep -q 'num_cq_read" (current value: "7", data source: environment' <<<"$out" || return 1
    grep -q "btl_ofi_rs_put_limit\" (current value: \"65536\"" <<<"$out" || return 1
    grep -q "btl_ofi_rs_eager_limit\" (current value: \"8192\"" <<<"$out" || return 1
    # Open MPI shows the source of a value given by a synonym in the environment as the default; the value is right.
    grep -q '_verbose" (current value: "3".*synonym of: opal_common_ofi_verbose' <<<"$out" || return 1
    grep -q '_provider_include" (current value: "shm", data source: environment' <<<"$out" || return 1
    grep -q "_provider_exclude\" (current value: \"udp\", data source: file .*$file:1" <<<"$out" || return 1
    grep -q "_peer_check_interval\" (current value: \"90\", data source: file .*$file:2" <<<"$out" || return 1
    OMPI_MCA_btl_ofi_provider_include='tcp;ofi_rxm' OMPI_MCA_opal_common_ofi_verbose=1 \
        OMPI_MCA_mca_base_component_path=$openmpi_path OMPI_MCA_btl=self,vader,ofi_rs \
        openmpi_hears timeout 60 mpirun -n 1 "$openmpi_bin/hello_window" || return 1
    grep -q "btl/ofi_rs: using tcp;ofi_rxm" <<<"$out" || return 1
    # A user who asks for the component by the list of BTLs in a file gets it, over tcp where there is no
    # fabric.
    printf '%s\n' "btl = self,vader,ofi_rs" >"$file"
    out=$(OMPI_MCA_mca_base_param_files=$(pwd)/$file OMPI_MCA_opal_common_ofi_verbose=1 \
        OMPI_MCA_mca_base_component_path=$openmpi_path timeout 60 mpirun -n 1 "$openmpi_bin/hello_window" 2>&1) || true
    printf '%s\n' "$out"
    grep -q 'using tcp;ofi_rxm on ' <<<"$out"
}

# A program whose list of BTLs does not name the component pays nothing: libfabric is not opened, and not even loaded where no
# component of Open MPI may use it.
openmpi_opens_by_name() {
    local out
    OMPI_MCA_btl_ofi_verbose=1 OMPI_MCA_mca_base_component_path=$openmpi_path \
        openmpi_hears timeout 60 mpirun -n 2 --oversubscribe --mca osc ^ofi_rs "$openmpi_bin/hello_window" || return 1
    grep -q 'hello_window: ok' <<<"$out" && ! grep -q 'provider' <<<"$out" &&
        [ "$(grep -c 'the list of BTLs does not name the component' <<<"$out")" -eq 2 ] || return 1
    out=$(OMPI_MCA_mca_base_component_path=$openmpi_path timeout 60 mpirun -n 1 --mca pml ob1 --mca btl ^ofi \
        env LD_DEBUG=files "$openmpi_bin/hello_window" 2>&1) || return 1
    grep -q 'hello_window: ok' <<<"$out" && grep -q 'calling init: .*mca_btl_ofi_rs' <<<"$out" && ! grep 'calling init: .*libfabric' <<<"$out"
}

# Without lists of the user: providers excluded by default are not used, and each refusal is printed with its reason. Without a
# fabric the component uses tcp.
openmpi_honours_default_list() {
    local out
    OPENMPI_OSC=rdma,sm,pt2pt openmpi_hears openmpi_run '' 2 --mca btl_ofi_verbose 1 "$openmpi_bin/hello_window" || return 1
    grep -q 'hello_window: ok' <<<"$out" &&
        grep -q 'provider shm on shm: not taken: in btl_ofi_provider_exclude' <<<"$out" || return 1
    grep -q 'using tcp;ofi_rxm on ' <<<"$out"
}

# A provider that does not exist: the component prints one line and offers no module, and the program runs
# over other components.
openmpi_steps_aside() {
    local out
    out=$(OPENMPI_OSC=rdma,sm,pt2pt openmpi_run no-such-provider 2 "$openmpi_bin/hello_window" 2>&1) || return 1
    printf '%s\n' "$out"
    grep -q 'hello_window: ok' <<<"$out" && grep -q 'steps aside.*no-such-provider' <<<"$out"
}

# A provider that breaks its guarantees is skipped, with the reason, and the next one is used; without
# another provider the component has none.
openmpi_passes_over() {
    local out
    openmpi_program 'udp;ofi_rxd,sockets' 2 hello_window | tee "$openmpi_dir/passed_over.txt" || return 1
    grep -q 'provider udp;ofi_rxd on .*: not taken: it gives results of fetching atomics to the wrong operations' "$openmpi_dir/passed_over.txt" &&
        grep -q 'using sockets on' "$openmpi_dir/passed_over.txt" || return 1
    out=$(OPENMPI_OSC=rdma,sm,pt2pt openmpi_run 'udp;ofi_rxd' 2 "$openmpi_bin/hello_window" 2>&1) || return 1
    printf '%s\n' "$out"
    grep -q 'hello_window: ok' <<<"$out" && grep -q 'steps aside.*udp;ofi_rxd: it gives results of fetching atomics to the wrong operations' <<<"$out"
}

# A message names an invalid value, its parameter and the allowed values; the program runs over other
# components.
openmpi_names_bad_values() {
    local out
    OPENMPI_OSC=rdma,sm,pt2pt openmpi_hears openmpi_run shm 2 --mca btl_ofi_num_cq_read 0 "$openmpi_bin/hello_window" || return 1
    grep -q 'hello_window: ok' <<<"$out" && grep -q 'btl_ofi_num_cq_read.*`0`' <<<"$out" || return 1
    # A number that is too large for its type, which Open MPI refuses.
    OPENMPI_OSC=rdma,sm,pt2pt openmpi_hears openmpi_run shm 2 --mca "btl_ofi_rs_rd_num" 99999999999 "$openmpi_bin/hello_window" || return 1
    grep -q 'hello_window: ok' <<<"$out" && grep -q 'btl_ofi_rd_num: Open MPI does not take its value; 1 to .*steps aside' <<<"$out"
}

# Tests that a series for which the component was not built prints one line, does not crash, and
# runs the program over other components.
openmpi_refuses_series() {
    local out stand_in
    stand_in=$(pwd)/$openmpi_dir/bin/other_series.so
    cc -shared -fPIC -o "$stand_in" tests/openmpi/other_series.c || return 1
    OPENMPI_OSC=rdma,sm,pt2pt openmpi_hears openmpi_run shm 2 -x "LD_PRELOAD=$stand_in" "$openmpi_bin/hello_window" || return 1
    grep -q 'hello_window: ok' <<<"$out" && grep -q 'built for Open MPI 4\.1\.x and steps aside.*loaded by 4\.0\.3' <<<"$out"
}

# Likewise, by an Open MPI of the same series with another configuration.
openmpi_refuses_configuration() {
    local out stand_in
    stand_in=$(pwd)/$openmpi_dir/bin/other_sizes.so
    cc -shared -fPIC -o "$stand_in" tests/openmpi/other_sizes.c || return 1
    OPENMPI_OSC=rdma,sm,pt2pt openmpi_hears openmpi_run shm 2 -x "LD_PRELOAD=$stand_in" "$openmpi_bin/hello_window" || return 1
    grep -q 'hello_window: ok' <<<"$out" &&
        grep -q 'built for another configuration of Open MPI and steps aside.*opal_convertor_t has another size' <<<"$out"
}

# If Open MPI has no registration cache, memory is registered one by one.
openmpi_without_cache() {
    local out
    out=$(export FI_PROVIDER_PATH=$openmpi_lab LAB_MR_MODE=ALLOCATED
        openmpi_program lab 2 window_life -x FI_PROVIDER_PATH -x LAB_MR_MODE --mca rcache '^grdma') ||
        { printf '%s\n' "$out"; return 1; }
    printf '%s\n' "$out"
    grep -q 'no registration cache' <<<"$out"
}

# If registrations stand for pages, Open MPI's cache ends the job that frees a window's memory too early: the program
# would show it.
openmpi_freed_early_notices() {
    local out
    if out=$(export FI_PROVIDER_PATH=$openmpi_lab LAB_MR_MODE=ALLOCATED
        openmpi_run lab 2 -x FI_PROVIDER_PATH -x LAB_MR_MODE "$openmpi_bin/freed_early" 2>&1); then return 1; fi
    printf '%s\n' "$out"
    grep -q 'Attempt to free memory that is still in use' <<<"$out"
}

# openmpi_lab_program RANKS PROGRAM VARIABLE=VALUE...: over the provider of tests/lab-provider, shaped by variables.
# The provider must have made faults and must not have found a mistake of its user.
openmpi_lab_program() {
    local ranks=$1 program=$2 lab=$openmpi_lab_files pass=() pair
    shift 2
    rm -f "$lab/report" "$lab/stats"
    for pair in FI_PROVIDER_PATH="$openmpi_lab" LAB_REPORT="$openmpi_lab/report" LAB_STATS="$openmpi_lab/stats" "$@"; do
        pass+=(-x "$pair")
    done
    openmpi_program lab "$ranks" "$program" "${pass[@]}" || return 1
    cat "$lab/stats"
    if [ -s "$lab/report" ]; then cat "$lab/report"; return 1; fi
    grep -q '^end .*faults=[1-9]' "$lab/stats"
}

# Checks that the provider for tests would notice a registration that outlived its memory: one whose end Open MPI's
# hooks did not see.
openmpi_pages_notice() {
    local out
    if out=$(export FI_PROVIDER_PATH=$openmpi_lab LAB_PAGES=1 LAB_MR_MODE=ALLOCATED
        openmpi_run lab 2 -x FI_PROVIDER_PATH -x LAB_PAGES -x LAB_MR_MODE "$openmpi_bin/window_life" --behind 2>&1); then return 1; fi
    printf '%s\n' "$out"
    grep -q 'was given back since it was registered' <<<"$out"
}

# Headers of another series, or no headers: cargo reports it, and builds nothing.
openmpi_refuses_headers() {
    local out
    if out=$(MCA_BTL_OFI_SERIES=3.0 cargo build --release -p mca-btl-ofi 2>&1); then return 1; fi
    grep -q 'MCA_BTL_OFI_SERIES asks for Open MPI 3.0' <<<"$out" || { printf '%s\n' "$out"; return 1; }
    if out=$(MCA_BTL_OFI_OMPI_PREFIX=/nonexistent cargo build --release -p mca-btl-ofi 2>&1); then return 1; fi
    grep -q "devel headers.*are not in /nonexistent" <<<"$out" || { printf '%s\n' "$out"; return 1; }
    local fake
    fake=$(pwd)/$openmpi_dir/headers_of_4.0
    mkdir -p "$fake/include/openmpi"
    printf '#define OPAL_%s_VERSION %d\n' MAJOR 4 MINOR 0 RELEASE 3 >"$fake/include/openmpi/opal_config.h"
    if out=$(MCA_BTL_OFI_OMPI_PREFIX=$fake cargo build --release -p mca-btl-ofi 2>&1); then return 1; fi
    grep -q "the headers in $fake.* are of Open MPI 4.0.3; this component knows the series 4.1 (BTL 3.1.0)" <<<"$out" ||
        { printf '%s\n' "$out"; return 1; }
}

# A peer that is killed: a failure and a message. Only a hang is ended by the limit (124).
openmpi_survives_kill() {
    local provider=$1 out status=0 begin=$SECONDS
    out=$(OPENMPI_LIMIT=50 ${OPENMPI_RUN:-openmpi_run} "$provider" 2 "$openmpi_bin/killed_peer" 2>&1) || status=$?
    printf '%s\nended after %d s with %d\n' "$out" $((SECONDS - begin)) $status
    [ $status -ne 0 ] && [ $status -ne 124 ] && grep -q 'rank 1 is killed' <<<"$out" && ! grep -q 'never heard' <<<"$out"
}

# The same if mpirun does not end the job itself: the component's error callback must end it. (mpirun's exit status is
# 0.)
openmpi_ends_job() {
    local provider=$1 out status=0 begin=$SECONDS
    out=$(OPENMPI_LIMIT=50 ${OPENMPI_RUN:-openmpi_run} "$provider" 2 --enable-recovery "$openmpi_bin/killed_peer" 2>&1) ||
        status=$?
    printf '%s\nended after %d s with %d\n' "$out" $((SECONDS - begin)) $status
    [ $status -ne 124 ] && grep -q 'process 1.*ending the job' <<<"$out" && ! grep -q 'never heard' <<<"$out"
}

# Several peers are killed one after the other: each is reported.
openmpi_reports_each() {
    local provider=$1 out
    OPENMPI_PML=ob1 OPENMPI_LIMIT=100 openmpi_hears openmpi_run "$provider" 4 --enable-recovery "$openmpi_bin/lost_peers" || true
    grep -q '^lost_peers: ok, 4 ranks' <<<"$out"
}

# mpi4py from its source distribution, built against this Open MPI in a separate environment (some minutes, once).
openmpi_mpi4py() {
    local version=4.1.0
    openmpi_python=$openmpi_dir/mpi4py/bin/python
    openmpi_mpi4py_tests=$openmpi_dir/mpi4py-$version/test/main.py
    [ -f "$openmpi_mpi4py_tests" ] && "$openmpi_python" -c 'import mpi4py.MPI' 2>/dev/null && return
    openmpi_say "building mpi4py $version (some minutes, once)"
    [ -x "$openmpi_python" ] || python3 -m venv "$openmpi_dir/mpi4py" || return 1
    "$openmpi_python" -m pip download -q --no-binary mpi4py --no-deps -d "$openmpi_dir" "mpi4py==$version" || return 1
    tar -C "$openmpi_dir" -xf "$openmpi_dir/mpi4py-$version.tar.gz" || return 1
    MPICC=mpicc CFLAGS=-O0 "$openmpi_python" -m pip install -q --no-binary mpi4py "$openmpi_dir/mpi4py-$version.tar.gz"
}

# Tests of mpi4py that no rank may skip, and tests that are left out of the whole: mpirun of 4.1 does not return from them over
# any transport.
openmpi_mpi4py_skips='skipped'
openmpi_mpi4py_without=(-e test_spawn -e test_dynproc)

# openmpi_mpi4py_run PROVIDER RANKS TEST...: every rank must print OK, and skip no test.
openmpi_mpi4py_run() {
    local provider=$1 ranks=$2 tests=() name out
    shift 2
    for name in "$@"; do tests+=(-i "$name"); done
    OPENMPI_LIMIT=1800 openmpi_hears ${OPENMPI_RUN:-openmpi_run} "$provider" "$ranks" "$openmpi_python" "$openmpi_mpi4py_tests" -v -f "${tests[@]}" || return 1
    # Lines of several ranks may be mixed, so only texts that must not appear are searched exactly.
    ! grep -Eq "FAILED|Traceback|$openmpi_mpi4py_skips" <<<"$out" && grep -q 'OK' <<<"$out"
}

# Checks that the function before would notice missing windows: without windows mpi4py skips its tests, and that must
# not pass.
openmpi_mpi4py_notices() {
    local out
    if out=$(OPENMPI_OSC=pt2pt openmpi_mpi4py_run shm 1 test_rma); then
        printf '%s\n' "$out"
        return 1
    fi
    grep -q "skipped 'mpi-" <<<"$out" || { printf '%s\n' "$out"; return 1; }
}

openmpi_nwchem_energy() { sed -n 's/.*Total SCF energy = *\(-[0-9.]*\).*/\1/p'; }

# NWChem over the component against NWChem over Open MPI's own transports, to 1e-8 Hartree. ARMCI makes its windows
# over its own memory, because MPI_Win_allocate on one node is plain shared memory.
openmpi_nwchem() {
    local provider=$1 ranks=$2 scratch=$openmpi_dir/nwchem input ours theirs
    input=$(pwd)/tests/openmpi/water.nw
    mkdir -p "$scratch"
    theirs=$(cd "$scratch" && timeout 200 mpirun -n "$ranks" --oversubscribe --bind-to none nwchem.openmpi "$input" \
        >"theirs_$ranks.txt" 2>&1 && openmpi_nwchem_energy <"theirs_$ranks.txt") || { cat "$scratch/theirs_$ranks.txt"; return 1; }
    ours=$(cd "$scratch" && OPENMPI_LIMIT=200 ${OPENMPI_RUN:-openmpi_run} "$provider" "$ranks" --mca btl_ofi_verbose 1 \
        -x ARMCI_USE_WIN_ALLOCATE=0 nwchem.openmpi "$input" >"ours_$ranks.txt" 2>&1 &&
        openmpi_nwchem_energy <"ours_$ranks.txt") || { cat "$scratch/ours_$ranks.txt"; return 1; }
    grep "using $provider on" "$scratch/ours_$ranks.txt" && grep -E ' [1-9][0-9]* operations posted' "$scratch/ours_$ranks.txt" ||
        { printf 'nothing went through the component\n'; return 1; }
    printf 'ours %s, Open MPI %s Hartree\n' "$ours" "$theirs"
    [ -n "$ours" ] && [ -n "$theirs" ] && awk -v a="$ours" -v b="$theirs" 'BEGIN { d = a - b; exit !(d < 1e-8 && d > -1e-8) }'
}

# Each rank writes a line of JSON with its counts. A file that cannot be written is named in a message, without
# another effect.
openmpi_stats_file() {
    local file=$openmpi_dir/stats.jsonl out
    rm -f "$file"
    out=$(openmpi_program shm 2 atomics --mca btl_ofi_stats_file "$PWD/$file") || { printf '%s\n' "$out"; return 1; }
    [ "$(wc -l <"$file")" -eq 2 ] || { cat "$file"; return 1; }
    python3 - "$file" <<'PYTHON' || return 1
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
assert len({line["pid"] for line in lines}) == 2, lines
for line in lines:
    assert line["title"].startswith("shm") and line["polls"] > 0, line
    assert sum(c["operations"] for peer in line["peers"] for c in peer["carried"]) > 100, line
PYTHON
    out=$(openmpi_program shm 2 atomics --mca btl_ofi_stats_file "/proc/nowhere") || { printf '%s\n' "$out"; return 1; }
    [ "$(grep -c 'the counters are not written to /proc/nowhere: .*choose another btl_ofi_stats_file' <<<"$out")" -eq 2 ]
}

# ---- The component osc ----

# openmpi_osc_run RANKS [mpirun options] PROGRAM...: a bare mpirun, except for the folder.
openmpi_osc_run() {
    local ranks=$1
    shift
    "${openmpi_enter[@]}" env "OMPI_MCA_mca_base_component_path=$openmpi_path" timeout "${OPENMPI_LIMIT:-120}" \
        mpirun -n "$ranks" "${openmpi_oversubscribe[@]}" --bind-to none "$@"
}

# openmpi_osc RANKS PROGRAM [mpirun options]: the program succeeds, and this component makes its
# windows.
openmpi_osc() {
    local ranks=$1 program=$2 out
    shift 2
    openmpi_hears openmpi_osc_run "$ranks" --mca osc_ofi_rs_verbose 1 "$@" "$openmpi_bin/$program" || return 1
    grep -q "^$program: ok, $ranks ranks" <<<"$out" && grep -q 'osc/ofi_rs: serves a window' <<<"$out"
}

# A rank is killed: calls of the others that need it return errors, and end.
openmpi_osc_killed() {
    local out
    openmpi_hears openmpi_osc_run 3 --enable-recovery "$openmpi_bin/osc_killed" || true
    [ "$(grep -c '^osc_killed: ok, rank [02] got an error' <<<"$out")" -eq 2 ]
}

# openmpi_osc_random RANKS [mpirun options]: random operations against a model, with some seeds.
openmpi_osc_random() {
    local ranks=$1 seed out
    shift
    for seed in 1 2 3 4 5; do
        out=$(openmpi_osc_run "$ranks" "$@" "$openmpi_bin/osc_random" "$seed" 20 2>&1) || { printf '%s\n' "$out"; return 1; }
        printf '%s\n' "$out"
        grep -q "^osc_random: ok, $ranks ranks" <<<"$out" || return 1
    done
}

# The program never frees its windows, and leaves an epoch open.
openmpi_osc_lives() {
    local out same_node
    for same_node in auto off; do
        out=$(openmpi_osc_run 2 --mca btl_ofi_same_node "$same_node" "$openmpi_bin/osc_abuse" live 2>&1) || { printf '%s\n' "$out"; return 1; }
        printf '%s\n' "$out"
        grep -q '^osc_abuse: ok, 2 ranks' <<<"$out" || return 1
    done
}

# openmpi_osc_scopes TIMES RANKS [mpirun options]: all ranks serve windows of one node by memory, and TIMES ranks open a
# provider.
openmpi_osc_scopes() {
    local times=$1 ranks=$2 out
    shift 2
    openmpi_hears openmpi_osc "$ranks" osc_scopes "$@" || return 1
    [ "$(grep -c 'osc/ofi_rs: windows use memory on node' <<<"$out")" -eq "$ranks" ] &&
        [ "$(grep -c 'osc/ofi_rs: windows use tcp' <<<"$out")" -eq "$times" ]
}

# A provider that does not exist does no harm on one node, because it is not opened, also where a job spawns another.
openmpi_osc_opens_none() {
    local out none=(--mca btl_ofi_provider_include no-such-provider)
    openmpi_osc_scopes 0 3 "${none[@]}" || return 1
    openmpi_hears openmpi_osc 2 osc_spawn "${none[@]}" || return 1
    [ "$(grep -c 'osc/ofi_rs: windows use memory on node' <<<"$out")" -eq 4 ]
}

# Ranks that Open MPI places on one node although they do not reach each other: one does not want memory, or memory hides it.
openmpi_osc_hidden() {
    local out program="$openmpi_bin/osc_scopes" hidden
    for hidden in "-x OMPI_MCA_btl_ofi_same_node=off" "unshare --pid --fork --kill-child"; do
        # shellcheck disable=SC2086 # an option, or a program that starts another
        out=$(openmpi_osc_run 2 --mca osc_ofi_rs_verbose 1 "$program" : -n 1 $hidden "$program" 2>&1) ||
            { printf '%s\n' "$out"; return 1; }
        printf '%s\n' "$out"
        grep -q '^osc_scopes: ok, 3 ranks' <<<"$out" &&
            [ "$(grep -c 'osc/ofi_rs: windows use tcp;ofi_rxm' <<<"$out")" -eq 3 ] || return 1
    done
}

# Parameters of the transport arrive by their usual names, although Open MPI has dropped the component btl.
openmpi_osc_hears_parameters() {
    local out
    openmpi_hears openmpi_osc 2 osc_calls --mca btl_ofi_same_node off --mca btl_ofi_if_include lo --mca btl_ofi_provider_include 'tcp;ofi_rxm' || return 1
    [ "$(grep -c 'osc/ofi_rs: windows use tcp;ofi_rxm on lo;' <<<"$out")" -eq 2 ]
}

# Windows of two jobs, one of which lacks the component: all ranks leave the windows to other components. The components of
# 4.1 fail if the parents made no window by them before.
openmpi_osc_spawn_without() {
    local out status=0
    out=$(openmpi_osc_run 2 --mca btl_tcp_if_include lo --mca osc_ofi_rs_verbose 1 "$openmpi_bin/osc_spawn" without 2>&1) || status=$?
    printf '%s\nended with %d\n' "$out" $status
    [ $status -ne 124 ] && [ "$(grep -c 'left to other components: rank 2 does not have this component' <<<"$out")" -ge 2 ]
}

# mpi4py's tests of windows, on the component osc.
openmpi_osc_mpi4py() {
    local ranks=$1 out
    OPENMPI_LIMIT=300 openmpi_hears openmpi_osc_run "$ranks" --mca osc_ofi_rs_verbose 1 "$openmpi_python" "$openmpi_mpi4py_tests" -v -f \
        -i test_rma -i test_rma_nb -i test_win || return 1
    ! grep -Eq "FAILED|Traceback|$openmpi_mpi4py_skips" <<<"$out" && grep -q OK <<<"$out" && grep -q 'osc/ofi_rs: serves a window' <<<"$out"
}

# openmpi_osc_rdma RANKS LIST VARIABLES [mpirun options]: osc/rdma serves the windows with this list of components osc, if rank 2
# has these variables in its environment. A shell sets them, because mpirun of 5.0.7 crashes with programs separated by colons.
openmpi_osc_rdma() {
    local ranks=$1 list=$2 variables=$3 out
    shift 3
    # shellcheck disable=SC2016 # the shell of a rank expands its number
    openmpi_hears openmpi_osc_run "$ranks" -x "OMPI_MCA_osc=$list" "$@" \
        sh -c 'if [ "$PMIX_RANK" = 2 ]; then export $0; fi; exec "$@"' "$variables" "$openmpi_bin/osc_name" rdma || return 1
    grep -q "^osc_name: ok, $ranks ranks" <<<"$out"
}

# The component that serves windows if some rank cannot, or nobody may: osc/rdma.
openmpi_osc_delegates() {
    local out
    openmpi_hears openmpi_osc_rdma 3 ^sm 'OMPI_MCA_btl_ofi_provider_include=no-such-provider OMPI_MCA_btl_ofi_same_node=off' || return 1
    grep -q 'a window goes to rdma, because rank 2 cannot serve it: the transport could not be opened' <<<"$out" || return 1
    openmpi_osc_rdma 3 ^sm OMPI_MCA_osc=^sm,ofi_rs && openmpi_osc_rdma 2 ^sm,ofi_rs '' &&
        openmpi_osc_rdma 2 ^sm '' --mca osc_ofi_rs_priority 10
}

openmpi_test_osc() {
    local ranks program provider
    for ranks in 1 2 3 4; do
        openmpi_check "osc, every call, $ranks ranks" openmpi_osc "$ranks" osc_calls
        openmpi_check "osc, threads, $ranks ranks" openmpi_osc "$ranks" osc_threads
    done
    for program in hello_window transfers atomics swaps misaligned window_life threads passive_target pvars; do
        openmpi_check "osc, $program, 2 ranks" openmpi_osc 2 "$program"
    done
    # As between nodes: no transfer by memory, except in windows of MPI_Win_allocate_shared.
    for program in osc_calls osc_threads pvars; do
        openmpi_check "osc, $program, 2 ranks over tcp;ofi_rxm alone" openmpi_osc 2 "$program" --mca btl_ofi_same_node off \
            --mca btl_ofi_provider_include 'tcp;ofi_rxm'
    done
    openmpi_check "osc, polling by each call" openmpi_osc 2 osc_polls
    openmpi_check "osc, random operations, 3 ranks" openmpi_osc_random 3
    for provider in 'tcp;ofi_rxm' net; do
        openmpi_check "osc, random operations, 2 ranks over $provider alone" openmpi_osc_random 2 --mca btl_ofi_same_node off \
            --mca btl_ofi_provider_include "$provider"
    done
    openmpi_check "osc, bad input, 3 ranks" openmpi_osc 3 osc_abuse
    openmpi_check "osc, bad input that Open MPI does not check, 2 ranks" openmpi_osc 2 osc_abuse --mca mpi_param_check 0
    openmpi_check "osc, bad input, 2 ranks over tcp;ofi_rxm alone" openmpi_osc 2 osc_abuse --mca btl_ofi_same_node off \
        --mca btl_ofi_provider_include 'tcp;ofi_rxm'
    openmpi_check "osc, windows that live until MPI_Finalize" openmpi_osc_lives
    openmpi_check "osc, every call with the progress thread, 3 ranks" openmpi_osc 3 osc_calls --mca osc_ofi_rs_progress_thread 1
    openmpi_check "osc, a target that computes, with the progress thread" openmpi_osc 3 osc_alone --mca osc_ofi_rs_progress_thread 1 \
        --mca btl_ofi_same_node off --mca btl_ofi_provider_include 'tcp;ofi_rxm'
    openmpi_check "osc, no provider on one node, nor for a job that is spawned there" openmpi_osc_opens_none
    openmpi_check "osc, ranks of one node that memory does not reach" openmpi_osc_hidden
    openmpi_check "osc, parameters by their usual names" openmpi_osc_hears_parameters
    openmpi_check "osc, windows of two jobs" openmpi_osc 2 osc_spawn
    openmpi_check "osc, windows of two jobs, one without the component" openmpi_osc_spawn_without
    openmpi_check "osc, a rank is killed" openmpi_osc_killed
    openmpi_check "osc, windows go to others where a rank cannot serve them" openmpi_osc_delegates
    openmpi_test_device
    openmpi_test_without_devices
}

# On two nodes, also without any option of this project.
openmpi_test_osc_apart() {
    local program
    for program in hello_window osc_calls osc_scopes osc_spawn osc_threads; do
        openmpi_check "osc, $program, 4 ranks on two nodes" openmpi_osc 4 "$program" --host one:2,two:4 --mca plm_rsh_agent "$openmpi_agent" \
            --mca btl_ofi_same_node off --mca mpi_yield_when_idle 1 --mca btl_tcp_if_include lo --mca oob_tcp_if_include lo
    done
    # The pretended nodes share their memory, but Open MPI keeps them apart.
    openmpi_check "osc, a provider from the first window of two nodes on" openmpi_osc_scopes 4 4 --host one:2,two:4 \
        --mca plm_rsh_agent "$openmpi_agent" --mca mpi_yield_when_idle 1 --mca btl_tcp_if_include lo --mca oob_tcp_if_include lo
}

openmpi_compile_tests() {
    local program
    for program in hello_window transfers atomics swaps window_life threads passive_target killed_peer no_room unwritten freed_early \
        counted pvars sent_alone unlocked_alone long_messages misaligned swap_lock osc_abuse osc_alone osc_calls osc_killed osc_name osc_polls osc_random osc_scopes osc_spawn osc_threads; do
        openmpi_compile "tests/openmpi/$program.c"
    done
    openmpi_compile_device
    # Open MPI's inner headers cause warnings, and mpicc does not link its core library.
    openmpi_compile tests/openmpi/table.c -w -lopen-pal
    openmpi_compile tests/openmpi/lost_peers.c -w -lopen-pal
    openmpi_compile tests/openmpi/refusals.c -w -lopen-pal
}

openmpi_test_short() {
    openmpi_build
    openmpi_compile_tests
    openmpi_programs shm 2 hello_window transfers atomics swaps misaligned freed_early pvars
    openmpi_check "counters of a job in a file" openmpi_stats_file
    openmpi_check "osc, every call, 2 ranks" openmpi_osc 2 osc_calls
    openmpi_check "osc, threads, 2 ranks" openmpi_osc 2 osc_threads
    openmpi_check "osc, counters, 2 ranks" openmpi_osc 2 pvars
    openmpi_check "osc, polling by each call" openmpi_osc 2 osc_polls
    openmpi_check "osc, memory of devices, 2 ranks" openmpi_device 2 osc_device
    openmpi_check "osc, misplaced memory of devices" openmpi_device 2 osc_misplaced
    openmpi_check "osc, copy functions of the program" openmpi_device 2 osc_overrides
    openmpi_check "osc, no provider on one node, nor for a job that is spawned there" openmpi_osc_opens_none
    openmpi_test_valgrind
    openmpi_check "building mpi4py" openmpi_mpi4py
    openmpi_check "mpi4py test_rma, 2 ranks, shm" openmpi_mpi4py_run shm 2 test_rma
    openmpi_end
}

openmpi_test_valgrind() {
    command -v valgrind >/dev/null || openmpi_packages valgrind
    openmpi_check "atomics under valgrind, shm" openmpi_valgrind shm atomics
    openmpi_check "window_life under valgrind, tcp;ofi_rxm" openmpi_valgrind 'tcp;ofi_rxm' window_life
    openmpi_check "valgrind would notice" openmpi_valgrind_notices
}

openmpi_test() {
    local provider ranks program
    openmpi_build
    openmpi_compile_tests
    openmpi_check "ompi_info names the components" openmpi_shows_itself
    openmpi_check "one setting" openmpi_readme
    openmpi_check "package lists are fetched first" openmpi_fetches_lists
    openmpi_check "parameters arrive by their synonyms" openmpi_hears_parameters
    openmpi_check "libfabric is opened for who names the component" openmpi_opens_by_name
    openmpi_check "the default list of excluded providers" openmpi_honours_default_list
    openmpi_check "a provider list that matches nothing" openmpi_steps_aside
    openmpi_check "a provider of small messages" openmpi_passes_over
    openmpi_check "a value that is not allowed" openmpi_names_bad_values
    openmpi_check "headers of another series" openmpi_refuses_headers
    for provider in shm 'tcp;ofi_rxm'; do
        for ranks in 2 3; do
            openmpi_programs "$provider" "$ranks" hello_window transfers atomics swaps misaligned window_life threads freed_early
        done
        openmpi_check "the table called by hand, $provider" openmpi_table "$provider"
        openmpi_check "a peer killed in an epoch, $provider" openmpi_survives_kill "$provider"
        openmpi_check "a peer killed, mpirun looking away, $provider" openmpi_ends_job "$provider"
        openmpi_check "two peers killed, $provider" openmpi_reports_each "$provider"
    done
    openmpi_test_osc
    openmpi_check "threads are expected where they may call" openmpi_expects_threads
    openmpi_check "loaded by another series" openmpi_refuses_series
    openmpi_check "loaded by another configuration" openmpi_refuses_configuration
    openmpi_prepare_lab
    openmpi_refusals
    openmpi_check "without Open MPI's registration cache" openmpi_without_cache
    openmpi_check "memory freed early would be noticed" openmpi_freed_early_notices
    for ranks in 2 3; do
        openmpi_check "no room for registrations, $ranks ranks" openmpi_lab_program "$ranks" no_room LAB_REGIONS=6
    done
    for program in transfers atomics window_life threads; do
        openmpi_check "$program, operations turned away" openmpi_lab_program 2 "$program" \
            LAB_FAULTS=seed=7,again=300,burst=20,delay=5,reorder=1
    done
    if [ "$(id -u)" -eq 0 ]; then
        openmpi_check "memory given back is not reached through old registrations" \
            openmpi_lab_program 2 window_life LAB_PAGES=1 LAB_MR_MODE=ALLOCATED LAB_FAULTS=seed=5,again=50
        openmpi_check "an old registration would be noticed" openmpi_pages_notice
    else
        openmpi_say "skipped, root is needed to see which pages memory is made of: old registrations"
    fi
    openmpi_check "a lock by messages" openmpi_lab_program 2 table LAB_ATOMICS=0 LAB_FAULTS=seed=5,again=100
    # osc/rdma makes these atomics under its lock.
    openmpi_check "atomics that the provider lacks" openmpi_lab_program 2 atomics LAB_FAULTS=seed=3,again=100 \
        "LAB_WITHOUT=$openmpi_lacking"
    for provider in shm 'tcp;ofi_rxm'; do
        openmpi_check "declared atomics, $provider" openmpi_declares "$provider" 'ADD AND OR XOR SWAP CSWAP 32BIT' 'MIN MAX FLOAT'
    done
    openmpi_check "declared atomics where some are missing" openmpi_declares_less
    for provider in shm 'tcp;ofi_rxm'; do
        openmpi_check "host-stub check under mpirun, $provider" openmpi_host_stub "$provider"
    done
    openmpi_programs sockets 2 hello_window transfers atomics freed_early
    openmpi_programs shm 2 passive_target
    openmpi_test_valgrind
    openmpi_check "instructions of a put" openmpi_counts rma::put put
    openmpi_check "instructions of a get" openmpi_counts rma::get 'get with callback'
    openmpi_check "instructions of a fetch" openmpi_counts amo::atomic_fop 'fetch-add with callback'
    openmpi_check "instructions of a compare-and-swap" openmpi_counts amo::atomic_cswap 'compare-swap with callback'
    openmpi_check "building mpi4py" openmpi_mpi4py
    openmpi_check "mpi4py's skipped tests would be noticed" openmpi_mpi4py_notices
    for provider in shm 'tcp;ofi_rxm'; do
        for ranks in 1 2 3 4; do
            openmpi_check "mpi4py, $ranks ranks, $provider" openmpi_mpi4py_run "$provider" "$ranks" test_rma test_rma_nb test_win
        done
    done
    for ranks in 1 2 3 4; do
        openmpi_check "osc, mpi4py, $ranks ranks" openmpi_osc_mpi4py "$ranks"
    done
    openmpi_test_apart
    openmpi_packages libarmci-mpi-dev nwchem-openmpi
    openmpi_compile tests/openmpi/armci.c -larmci-openmpi
    openmpi_test_alone
    for provider in shm 'tcp;ofi_rxm'; do
        for ranks in 2 4; do
            openmpi_check "ARMCI, $ranks ranks, $provider" openmpi_program "$provider" "$ranks" armci -x ARMCI_USE_WIN_ALLOCATE=0
            openmpi_check "NWChem, $ranks ranks, $provider" openmpi_nwchem "$provider" "$ranks"
        done
    done
    openmpi_end
}

# A whole job over this component, MPI_Send and collectives included.
openmpi_test_alone() {
    local provider
    export OPENMPI_RUN=openmpi_run_two_sided
    for provider in net 'tcp;ofi_rxm' sockets shm; do
        openmpi_check "what was sent arrives without its sender, $provider" \
            openmpi_program "$provider" 3 sent_alone
    done
    for provider in net 'tcp;ofi_rxm'; do
        openmpi_check "whole mpi4py over this component alone, $provider" openmpi_mpi4py_whole "$provider" 2
        openmpi_check "NWChem over this component alone, $provider" openmpi_nwchem "$provider" 2
    done
    openmpi_check "whole mpi4py over this component alone, 3 ranks, net" openmpi_mpi4py_whole net 3
    # If the receiver cannot get, pml/ob1 has the sender put each fragment of a message at once.
    for provider in net 'tcp;ofi_rxm'; do
        openmpi_check "long messages by short puts, $provider" \
            openmpi_program "$provider" 2 long_messages --mca "btl_ofi_rs_flags" send,put,inplace --mca "btl_ofi_rs_put_limit" 65536
    done
    unset OPENMPI_RUN
}

openmpi_run_two_sided() {
    local provider=$1 ranks=$2
    shift 2
    OPENMPI_BTL=self OPENMPI_PML=ob1 openmpi_run "$provider" "$ranks" --mca btl_ofi_mode 2 "$@"
}

# Every rank must print OK. (Some tests skip themselves under Open MPI 4.1.)
openmpi_mpi4py_whole() {
    local provider=$1 ranks=$2 out
    OPENMPI_LIMIT=1800 openmpi_hears openmpi_run_two_sided "$provider" "$ranks" "$openmpi_python" "$openmpi_mpi4py_tests" -f \
        "${openmpi_mpi4py_without[@]}" || return 1
    ! grep -Eq "FAILED|Traceback" <<<"$out" && [ "$(grep -c '^OK' <<<"$out")" -ge 1 ]
}

# Checks that differ between several nodes and one.
openmpi_test_apart() {
    local provider ranks program
    if ! openmpi_prepare_nodes; then
        openmpi_say "skipped, root is needed to give processes host names of their own: two pretended nodes"
        return
    fi
    for provider in 'tcp;ofi_rxm' net; do
        for ranks in 2 4; do
            for program in hello_window transfers atomics swaps misaligned window_life threads; do
                OPENMPI_RUN=openmpi_run_apart openmpi_check "$program, $ranks ranks on two nodes, $provider" \
                    openmpi_program "$provider" "$ranks" "$program"
            done
        done
    done
    for provider in 'tcp;ofi_rxm' net; do
        OPENMPI_RUN=openmpi_run_apart openmpi_check "what was unlocked goes to others, 4 ranks on two nodes, $provider" \
            openmpi_program "$provider" 4 unlocked_alone
        OPENMPI_RUN=openmpi_run_apart openmpi_check "a spin lock that all ranks get, 4 ranks on two nodes, $provider" \
            openmpi_program "$provider" 4 swap_lock
    done
    openmpi_test_osc_apart
    for provider in shm 'tcp;ofi_rxm' net; do
        openmpi_check "host-stub check under mpirun on two nodes, $provider" openmpi_host_stub_apart "$provider"
    done
    OPENMPI_RUN=openmpi_run_apart openmpi_check "a peer killed on another node" openmpi_survives_kill 'tcp;ofi_rxm'
    OPENMPI_RUN=openmpi_run_apart openmpi_check "a peer killed on another node, mpirun looking away" \
        openmpi_ends_job 'tcp;ofi_rxm'
    for provider in 'tcp;ofi_rxm' net; do
        OPENMPI_RUN=openmpi_run_apart openmpi_check "mpi4py, 4 ranks on two nodes, $provider" \
            openmpi_mpi4py_run "$provider" 4 test_rma test_rma_nb test_win
    done
}
