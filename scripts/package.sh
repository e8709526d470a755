#!/usr/bin/env bash
# `./dev package`: Debian packages and a tarball of the build here, in target/packages.
#
#   openmpi-ofi-rs_<version>_<arch>.deb       the components osc/ofi_rs and btl/ofi_rs, in Open MPI's own folder, and their header
#   host-stub_<version>_<arch>.deb            program, libraries, headers, pkg-config files, manual pages, completions
#   btl-ofi-<version>-<machine>-linux.tar.gz  both, with install.sh, for users without root
#
# The component is for the Open MPI of this machine. `--openmpi PREFIX` names the Open MPI of another Debian release
# instead, by the folder `usr/lib/<triplet>/openmpi` in a root of that release; its packages go to
# target/packages/openmpi-<series>.
#
# dpkg-deb makes the packages from trees that this script lays out; docs/packaging.md has the
# reason.
set -euo pipefail
# Packaged files are readable, whatever this user's files are.
umask 022
cd "$(dirname "$0")/.."

out=$(pwd)/target/packages
release=${CARGO_TARGET_DIR:-target}/release
# The time that dpkg-deb and tar write: the last commit's, so that the same sources give the same
# files.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || date +%s)
export SOURCE_DATE_EPOCH

die() { printf 'package: %s\n' "$*" >&2; exit 1; }
say() { printf '== %s\n' "$*"; }

version=$(sed -n '/workspace.package/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
machine=$(uname -m)

# Sets `series` (4.1), and `system`, the folder from which Open MPI loads components.
find_openmpi() {
    local library
    if [ -z "$prefix" ]; then
        command -v ompi_info >/dev/null || die "no Open MPI on the PATH: apt-get install openmpi-bin libopenmpi-dev"
        series=$(ompi_info --version | sed -n 's/^Open MPI v\([0-9]*\.[0-9]*\)\..*/\1/p')
        system=$(ompi_info --parsable --path pkglibdir | sed 's/^path:pkglibdir://')
        return
    fi
    series=$(find "$prefix/include" -name opal_config.h -exec sed -n 's/^#define OPAL_M[AI][JN]OR_VERSION //p' {} + | paste -sd .)
    # Every package of Open MPI's libraries has a library for debuggers in the folder beside the
    # components.
    library=$(find "$prefix/lib" -name libompi_dbg_msgq.so | head -1)
    [ -n "$series" ] && [ -n "$library" ] || die "$prefix does not hold Open MPI's headers and libraries"
    system=$(dirname "/usr/${library#*/usr/}")
    out=$out/openmpi-$series
}

build() {
    # The build gives the same bytes for sources and crates in any folder. Flags that the user sets stay. Folders may have
    # blanks in their names.
    local flags=()
    if [ -n "${CARGO_ENCODED_RUSTFLAGS:-}" ]; then
        IFS=$'\x1f' read -r -a flags <<<"$CARGO_ENCODED_RUSTFLAGS"
    else
        read -r -a flags <<<"${RUSTFLAGS:-}"
    fi
    flags+=("--remap-path-prefix=$(pwd)=/btl-ofi" "--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo")
    CARGO_ENCODED_RUSTFLAGS=$(IFS=$'\x1f' && printf '%s' "${flags[*]}")
    # The crate that calls the C compiler parses these flags like a shell.
    CC_SHELL_ESCAPED_FLAGS=1
    CFLAGS="${CFLAGS:-} '-ffile-prefix-map=$(pwd)=/btl-ofi'"
    export CARGO_ENCODED_RUSTFLAGS CC_SHELL_ESCAPED_FLAGS CFLAGS
    if [ -n "$prefix" ]; then export MCA_BTL_OFI_OMPI_PREFIX=$prefix; fi
    MCA_BTL_OFI_SERIES=$series cargo build --release -p host-stub-command -p btl-ofi-plugin -p host-stub-c -p mca-btl-ofi \
        --bins --lib --example pages
}

# The libraries open libfabric themselves: with a dependency they could not be loaded without libfabric, and could not print
# the remedy.
check_dependencies() {
    local file
    for file in "$@"; do
        if readelf -d "$file" | grep -q 'NEEDED.*libfabric'; then die "$file is linked with libfabric"; fi
    done
}

# put MODE FILE PLACE: copies a file into the tree.
put() { install -D -m "$1" "$2" "$3"; }

# put_object FILE PLACE: copies a program or library without debug symbols.
put_object() {
    put 755 "$1" "$2"
    strip --strip-unneeded "$2"
}

# lay_out_components FOLDER DOC INCLUDE [LOADED]: one file under the names of both components, a program that shows the
# component of its windows, and the header for programs, which looks for the component in LOADED, too.
lay_out_components() {
    put_object "$release/libmca_btl_ofi.so" "$1/mca_btl_ofi_rs.so"
    if nm -D "$release/libmca_btl_ofi.so" | grep mca_osc_ofi_rs_component >/dev/null; then
        ln -s mca_btl_ofi_rs.so "$1/mca_osc_ofi_rs.so"
    fi
    put 644 tests/openmpi/hello_window.c "$2/examples/hello_window.c"
    put 644 btl-ofi/openmpi/include/openmpi_ofi_rs.h "$3/openmpi_ofi_rs.h"
    sed -i "s|^\(#define OPENMPI_OFI_RS_FOLDER\) \"\"|\1 \"${4:-}\"|" "$3/openmpi_ofi_rs.h"
}

# lay_out_host PREFIX LIBDIR: the host below PREFIX, its libraries in LIBDIR.
lay_out_host() {
    local prefix=$1 libdir=$2 page
    put_object "$release/host-stub" "$prefix/bin/host-stub"
    put_object "$release/libhost_stub.so" "$libdir/libhost_stub.so"
    put_object "$release/libbtl_ofi.so" "$libdir/libbtl_ofi.so"
    for page in host-stub/c/include/* plugin-api/include/*.h; do
        put 644 "$page" "$prefix/include/${page##*/}"
    done
    for page in "$stage"/pages/man1/*; do
        put 644 "$page" "$prefix/share/man/man1/${page##*/}"
        gzip -9nf "$prefix/share/man/man1/${page##*/}"
    done
    put 644 "$stage/pages/completions/host-stub" "$prefix/share/bash-completion/completions/host-stub"
    put 644 "$stage/pages/completions/_host-stub" "$prefix/share/zsh/vendor-completions/_host-stub"
    put 644 "$stage/pages/completions/host-stub.fish" "$prefix/share/fish/vendor_completions.d/host-stub.fish"
}

# pkg_config LIBDIR PREFIX_TEXT LIBDIR_TEXT: the pkg-config files, with these values.
pkg_config() {
    local template
    for template in packaging/*.pc.in; do
        mkdir -p "$1/pkgconfig"
        sed "s|@PREFIX@|$2|; s|@LIBDIR@|$3|; s|@VERSION@|$version|" "$template" \
            >"$1/pkgconfig/$(basename "$template" .in)"
    done
}

# deb NAME DEPENDS RECOMMENDS DESCRIPTION: makes the package of the tree `stage/NAME`.
deb() {
    local tree=$stage/$1
    put 644 LICENSE "$tree/usr/share/doc/$1/copyright"
    mkdir -p "$tree/DEBIAN"
    {
        printf 'Package: %s\nVersion: %s\nArchitecture: %s\n' "$1" "$version" "$(dpkg --print-architecture)"
        printf 'Maintainer: btl-ofi\nSection: net\nPriority: optional\n'
        printf 'Installed-Size: %s\n' "$(du -sk --apparent-size "$tree" | cut -f1)"
        printf 'Depends: %s\n' "$2"
        [ -z "$3" ] || printf 'Recommends: %s\n' "$3"
        printf 'Description: %s\n' "$4"
    } >"$tree/DEBIAN/control"
    (cd "$tree" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$tree/DEBIAN/md5sums"
    # Libraries in a folder that the dynamic loader searches.
    if compgen -G "$tree/usr/lib/*/*.so" >/dev/null; then
        printf 'activate-noawait ldconfig\n' >"$tree/DEBIAN/triggers"
    fi
    find "$tree" -type d -exec chmod 755 {} +
    dpkg-deb --root-owner-group --build "$tree" "$out/" >/dev/null
}

# The oldest C library that has every symbol version which these files need.
oldest_libc() {
    readelf --dyn-syms --wide "$@" | grep -o '@GLIBC_[0-9.]*' | sed 's/@GLIBC_//' | sort -uV | tail -1
}

# The package of Open MPI's libraries; empty if no package has them.
library_package() {
    if [ -n "$prefix" ]; then
        # The Open MPI of another release, which dpkg here does not know. Debian names this release and the folder of
        # components by one number.
        printf 'lib%s' "$(basename "$system")"
        return
    fi
    # A package of this project may have the folder, too.
    { dpkg-query -S "$system" 2>/dev/null || true; } | sed 's/: .*//; s/, /\n/g' | sed 's/:.*//' |
        grep -vx openmpi-ofi-rs | head -1 || true
}

make_debs() {
    local triplet libc tree library next
    triplet=$(dpkg-architecture -qDEB_HOST_MULTIARCH 2>/dev/null || printf '%s-linux-gnu' "$machine")
    library=$(library_package)
    next=${series%.*}.$((${series#*.} + 1))
    libc=$(oldest_libc "$release"/lib{host_stub,btl_ofi,mca_btl_ofi}.so "$release/host-stub")
    if [ -z "$library" ]; then
        say "the Open MPI of $system is of no package: no package of the component, which is in the tarball"
    else
        tree=$stage/openmpi-ofi-rs
        lay_out_components "$tree$system" "$tree/usr/share/doc/openmpi-ofi-rs" "$tree/usr/include" "$system"
        deb openmpi-ofi-rs "libc6 (>= $libc), libgcc-s1, libfabric1 (>= 1.14), $library (>= $series~), $library (<< $next~)" \
            openmpi-bin "MPI windows over libfabric for Open MPI $series
 The component osc/ofi_rs makes MPI's windows by memory between processes of a
 node, and over any libfabric provider between nodes, Ethernet included. Once
 installed it serves every window; no option is needed. The same file is the
 component btl/ofi_rs, for who names it in the list of BTLs."
    fi
    tree=$stage/host-stub
    lay_out_host "$tree/usr" "$tree/usr/lib/$triplet"
    pkg_config "$tree/usr/lib/$triplet" /usr "\${prefix}/lib/$triplet"
    deb host-stub "libc6 (>= $libc), libgcc-s1, libfabric1 (>= 1.14)" 'libpmix2 | libpmix2t64' 'windows and collectives over libfabric, without MPI
 The library libhost_stub and the program host-stub: windows, epochs,
 accumulates, communicators and collectives over the plugin libbtl_ofi.so, with
 headers, pkg-config files, manual pages and completions.'
}

make_tarball() {
    local name=btl-ofi-$version-$machine-linux tree
    tree=$stage/$name
    lay_out_host "$tree" "$tree/lib"
    # pkg-config replaces pcfiledir by the folder of the file: the tree may be moved.
    pkg_config "$tree/lib" '${pcfiledir}/../..' '${prefix}/lib'
    lay_out_components "$tree/lib/openmpi-$series" "$tree/share/doc/btl-ofi" "$tree/include"
    put 755 packaging/install.sh "$tree/install.sh"
    put 644 LICENSE "$tree/share/doc/btl-ofi/LICENSE"
    printf '%s\n' "$version" >"$tree/VERSION"
    printf '%s\n' "$series" >"$tree/SERIES"
    tar --directory "$stage" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
        -czf "$out/$name.tar.gz" "$name"
}

prefix=
case "${1:-}" in
    '') ;;
    --openmpi) [ $# -eq 2 ] || die "--openmpi needs a folder"; prefix=$(realpath "$2") ;;
    *) die "unknown: $1 (only --openmpi PREFIX)" ;;
esac
command -v dpkg-deb >/dev/null || die "dpkg-deb is missing: packages are made on Debian or Ubuntu"
find_openmpi
stage=$out/stage
rm -rf "$out"
mkdir -p "$stage"
say "building, the component for Open MPI $series (some minutes)"
build
check_dependencies "$release/libmca_btl_ofi.so" "$release/libbtl_ofi.so"
say 'manual pages and completions'
"$release/examples/pages" "$stage/pages"
say 'packages'
make_debs
make_tarball
rm -rf "$stage"
(cd "$out" && ls -l -- *.deb *.tar.gz | awk '{ printf "  %9d  '"${out#"$(pwd)/"}"'/%s\n", $5, $9 }')
say "to install: sudo apt-get install ./${out#"$(pwd)/"}/*.deb"
