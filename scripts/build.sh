# shellcheck shell=bash
# The release build that the commands of dev share; read by dev and by scripts that it starts.

# Always the same packages, even if a command needs only some: cargo chooses the features of crates by the set of
# packages, so another set would build most of them again. The tests build the same set (tests/src/fixtures.rs).
build_packages=(-p host-stub-command -p btl-ofi-plugin -p mca-btl-ofi -p host-stub-c -p lab-provider -p benches)

# build_release [--bins]: libraries and the programs that tests run; --bins: all programs.
build_release() {
    local targets=(--bin host-stub --bin instructions)
    [[ ${1:-} != --bins ]] || targets=(--bins)
    name_series
    cargo build --release "${build_packages[@]}" --lib "${targets[@]}"
}

# Names the series of the installed Open MPI, if the component can be built against it: cargo would build the component
# again each time the variable is set or unset.
name_series() {
    local dir
    [[ -z ${MCA_BTL_OFI_SERIES:-} ]] || return 0
    command -v ompi_info >/dev/null && command -v mpicc >/dev/null || return 0
    for dir in $(mpicc --showme:incdirs 2>/dev/null); do
        if [[ -e $dir/opal/mca/btl/btl.h ]]; then
            MCA_BTL_OFI_SERIES=$(ompi_info --version | sed -n 's/^Open MPI v\([0-9]*\.[0-9]*\)\..*/\1/p')
            export MCA_BTL_OFI_SERIES
            return 0
        fi
    done
}
