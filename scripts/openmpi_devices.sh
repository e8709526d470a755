# shellcheck shell=bash
# Checks of windows and memory of devices, for `./dev openmpi short`, `test` and `device`; sourced by
# openmpi_checks.sh.

# The fake of CUDA's driver, as tests/build.rs builds it.
openmpi_prepare_fake() {
    openmpi_driver=$(pwd)/$openmpi_dir/fake_cuda
    mkdir -p "$openmpi_driver"
    cc -std=gnu11 -O2 -Wall -Wextra -shared -fPIC -pthread -I host-stub/c/include -o "$openmpi_driver/libcuda.so" tests/c/fake_cuda.c
}

openmpi_compile_device() {
    local program
    openmpi_prepare_fake || return 1
    for program in osc_device osc_misplaced osc_opened osc_overrides; do
        openmpi_compile "tests/openmpi/$program.c" -I tests/c/cuda -I btl-ofi/openmpi/include -I plugin-api/include \
            -L "$openmpi_dir/fake_cuda" -lcuda -ldl || return 1
    done
    # The header is for C++ too.
    mpicxx -std=c++11 -DOMPI_SKIP_MPICXX -Wall -Wextra -fsyntax-only -x c++ btl-ofi/openmpi/include/openmpi_ofi_rs.h
}

# openmpi_device RANKS PROGRAM [mpirun options]: a program that uses a device. The fake's counts show that each rank's memory
# was copied.
openmpi_device() {
    local ranks=$1 program=$2 out
    shift 2
    openmpi_hears openmpi_osc "$ranks" "$program" -x "LD_LIBRARY_PATH=$openmpi_driver" -x FAKE_CUDA_SAY=1 "$@" || return 1
    [ -L "$openmpi_driver/libcuda.so" ] ||
        [ "$(grep -c '^fake CUDA: [1-9].* allocations, [1-9][0-9]* copies' <<<"$out")" -eq "$ranks" ]
}

# Puts and gets on one node copy from memory to memory, by the fake's count at the origin. On a GPU the times
# show these copies.
openmpi_device_opened() {
    local out
    FAKE_CUDA_SAY=1 LD_LIBRARY_PATH=$openmpi_driver openmpi_hears openmpi_osc 2 osc_opened -x LD_LIBRARY_PATH -x FAKE_CUDA_SAY || return 1
    [ -L "$openmpi_driver/libcuda.so" ] || [ "$(grep -c ' 100 copies of opened memory$' <<<"$out")" -eq 1 ]
}

# openmpi_device_beside STARTED [mpirun options]: the number of ranks of a program without CUDA in which the installed driver
# was started.
openmpi_device_beside() {
    local started=$1 out
    shift
    FAKE_CUDA_SAY=1 LD_LIBRARY_PATH=$openmpi_driver openmpi_hears openmpi_osc 2 hello_window -x LD_LIBRARY_PATH -x FAKE_CUDA_SAY "$@" || return 1
    [ "$(grep -c '^fake CUDA: 0 allocations' <<<"$out")" -eq "$started" ]
}

# A window that wants memory of a device is refused with the reason, and other windows work.
openmpi_device_off() {
    local out
    LD_LIBRARY_PATH=$openmpi_driver openmpi_hears openmpi_osc_run 2 --mca osc_ofi_rs_cuda off -x LD_LIBRARY_PATH \
        "$openmpi_bin/osc_misplaced" off || return 1
    grep -q '^osc_misplaced: ok, 2 ranks' <<<"$out" &&
        grep -q 'a window with memory of devices cannot be made: rank 0: device_num is 0: osc_ofi_rs_cuda is off' <<<"$out"
}

# At level 1 memory of devices is refused, and the parameter is named.
openmpi_device_level() {
    local out
    LD_LIBRARY_PATH=$openmpi_driver openmpi_hears openmpi_osc_run 2 --mca osc_ofi_rs_device_level 1 --mca osc_ofi_rs_verbose 1 -x LD_LIBRARY_PATH \
        "$openmpi_bin/osc_misplaced" level || return 1
    grep -q '^osc_misplaced: ok, 2 ranks' <<<"$out" &&
        grep -q 'put: memory of device 0 is not used at level 1 of device support; osc_ofi_rs_device_level is 1' <<<"$out"
}

# openmpi_device_support [mpirun options]: a program finds that devices are not supported.
openmpi_device_support() {
    local out
    openmpi_hears openmpi_osc_run 2 -x "LD_LIBRARY_PATH=$openmpi_driver" "$@" "$openmpi_bin/osc_overrides" 1 || return 1
    grep -q '^osc_overrides: ok, 2 ranks' <<<"$out"
}

# Programs with calls of openmpi_ofi_rs.h run without the component.
openmpi_device_absent() {
    local out
    LD_LIBRARY_PATH=$openmpi_driver openmpi_hears timeout 60 mpirun -n 2 --oversubscribe --bind-to none -x LD_LIBRARY_PATH \
        "$openmpi_bin/osc_overrides" absent || return 1
    grep -q '^osc_overrides: ok, 2 ranks' <<<"$out"
}

# A message names an invalid word; other components serve the windows.
openmpi_device_word() {
    local out
    openmpi_hears openmpi_osc_run 2 --mca osc_ofi_rs_cuda maybe "$openmpi_bin/osc_name" rdma || return 1
    # shellcheck disable=SC2016 # the message has backquotes
    grep -q '^osc_name: ok, 2 ranks' <<<"$out" && grep -q 'osc_ofi_rs_cuda: `maybe` is not allowed; .*auto' <<<"$out"
}

openmpi_test_device() {
    local ranks
    for ranks in 1 2 3; do
        openmpi_check "osc, memory of devices, $ranks ranks" openmpi_device "$ranks" osc_device
    done
    openmpi_check "osc, memory of devices over tcp;ofi_rxm alone" openmpi_device 2 osc_device --mca btl_ofi_same_node off \
        --mca btl_ofi_provider_include 'tcp;ofi_rxm'
    openmpi_check "osc, memory of devices with the progress thread" openmpi_device 3 osc_device --mca osc_ofi_rs_progress_thread 1
    openmpi_check "osc, memory of devices that is opened" openmpi_device_opened
    openmpi_check "osc, misplaced memory of devices" openmpi_device 2 osc_misplaced
    openmpi_check "osc, copy functions of the program" openmpi_device 2 osc_overrides
}

openmpi_test_without_devices() {
    openmpi_check "osc, no driver of devices is started for a program without" openmpi_device_beside 0
    openmpi_check "osc, the driver of devices is started on demand" openmpi_device_beside 2 --mca osc_ofi_rs_cuda on
    openmpi_check "osc, memory of devices is off" openmpi_device_off
    openmpi_check "osc, memory of devices at level 1" openmpi_device_level
    openmpi_check "osc, the level without a device" openmpi_device_support -x FAKE_CUDA_DEVICES=0
    openmpi_check "osc, the level where memory of devices is off" openmpi_device_support --mca osc_ofi_rs_cuda off
    openmpi_check "osc, the level that was set" openmpi_device_support --mca osc_ofi_rs_device_level 1
    openmpi_check "osc, the level where others serve windows" openmpi_device_support --mca osc_ofi_rs_priority -1
    openmpi_check "osc, calls of the header without the component" openmpi_device_absent
    openmpi_check "osc, a wrong word for memory of devices" openmpi_device_word
}

# `./dev openmpi device`: over the machine's driver if it has one, otherwise over the fake.
openmpi_command_device() {
    local driver
    openmpi_build
    openmpi_compile_device || openmpi_die "the programs of devices do not compile"
    driver=$(ldconfig -p | sed -n 's/.*libcuda\.so\.1 .*=> //p' | head -1)
    if [ -n "$driver" ]; then
        openmpi_driver=$(pwd)/$openmpi_dir/driver
        mkdir -p "$openmpi_driver"
        ln -sf "$driver" "$openmpi_driver/libcuda.so"
    fi
    openmpi_say "memory of devices over ${driver:-the fake of the driver}"
    openmpi_test_device
    grep -h 'GB/s' "$openmpi_dir"/osc__memory_of_devices_that_is_opened.log || true
    openmpi_end
}
