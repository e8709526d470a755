#!/usr/bin/env bash
# `./dev bare --packages [RELEASE...]`: packages, installed and used in minimal Debians by README's first lines, and the
# troubles that may occur there. The releases are bookworm (12), trixie (13) and testing; without a name, all three. The
# release whose Open MPI this machine has gets the packages of `./dev package`; for other releases, this script makes the
# packages in the same way, from the headers of the release. A root has no toolchain for Rust: only the packages are copied
# into it. `--keep` leaves the roots for the next run; otherwise they are removed at the end. Needs root.
#
# bare_packages_trouble.sh has the cases that must fail with a helpful message.
set -euo pipefail
cd "$(dirname "$0")/.."

releases='bookworm trixie testing'
suite='' root='' series='' packages=''
keep=no
failures=0
logs=$(pwd)/target/bare/logs
skips=$logs/skipped
. scripts/debian_root.sh
. scripts/bare_packages_trouble.sh

debian_environment=(OMPI_MCA_rmaps_base_oversubscribe=1)
debian_add_proxies
version=$(sed -n '/workspace.package/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
archive=btl-ofi-$version-$(uname -m)-linux

# as_user COMMAND: runs a shell command in the root as an ordinary user, in the folder of the project.
as_user() {
    timeout 200 chroot "$root" /usr/bin/env -i "${debian_environment[@]}" HOME="${home:-/home/user}" USER=user LC_ALL=C.UTF-8 \
        PATH=/usr/local/bin:/usr/bin:/bin setpriv --reuid=1000 --regid=1000 --clear-groups sh -c "cd /opt/project && $1" 2>&1
}

# check NAME COMMAND...: runs a check, keeps its output, and prints one line.
check() {
    local name=$1 log status=0
    shift
    name="$suite: $name"
    log=$logs/$(printf %s "$name" | tr -c 'a-zA-Z0-9\n' _).log
    "$@" >"$log" 2>&1 || status=$?
    if [ $status -eq 0 ]; then
        printf 'ok    %s\n' "$name"
    else
        printf 'FAIL  %s (exit %d, %s)\n' "$name" $status "$log"
        tail -15 "$log" | sed 's/^/      /'
        failures=$((failures + 1))
    fi
}

# said TEXT PATTERN...: prints the text; succeeds if each pattern is in it.
said() {
    local text=$1 pattern
    shift
    printf '%s\n' "$text"
    for pattern in "$@"; do
        grep -Eq -- "$pattern" <<<"$text" || { printf 'missing: %s\n' "$pattern"; return 1; }
    done
}

moved='tcp;ofi_rxm on .* [1-9][0-9]* operations posted'
served='^hello_window: ofi_rs window, put and flush'
went_well='^hello_window: ok, 2 ranks'

# The command on README's first screen that begins with this text, without its comment.
readme_line() {
    local line
    line=$(sed '/^## /q' README.md | sed -n "s/^    \($1.*\)/\1/p" | head -1 | sed 's/  *#.*//')
    [ -n "$line" ] || { printf 'README has no line: %s\n' "$1" >&2; return 1; }
    printf '%s\n' "$line"
}

# unpack_headers NAME...: unpacks packages of the release in /opt/headers of the root, without installing
# them.
unpack_headers() {
    debian_inside sh -euc 'mkdir -p /opt/headers && cd /opt/headers && chmod 777 . && apt-get -qq download "$@" &&
        for file in *.deb; do dpkg-deb -x "$file" .; done' - "$@"
}

# Sets `packages` to the folder with packages for the release, and `series` to its Open MPI.
find_packages() {
    series=$(debian_inside apt-cache show libopenmpi-dev | sed -n 's/^Version: \([0-9]*\.[0-9]*\).*/\1/p' | head -1)
    packages=target/packages
    if [ "$series" != "$(ompi_info --version 2>/dev/null | sed -n 's/^Open MPI v\([0-9]*\.[0-9]*\)\..*/\1/p')" ]; then
        unpack_headers libopenmpi-dev libpmix-dev libhwloc-dev libevent-dev \
            "$(debian_inside apt-cache depends libopenmpi-dev | sed -n 's/.*Depends: \(libopenmpi[0-9]*\)$/\1/p')" >"$logs/$suite.headers" 2>&1 ||
            { tail -3 "$logs/$suite.headers" >&2; debian_die "the headers of $suite were not unpacked"; }
        scripts/package.sh --openmpi "$(dirname "$(find "$root/opt/headers/usr/lib" -maxdepth 2 -name libopen-pal.so)")/openmpi" >"$logs/$suite.package" 2>&1 ||
            { tail -5 "$logs/$suite.package" >&2; debian_die "packages for $suite were not made ($logs/$suite.package)"; }
        rm -rf "$root/opt/headers"
        packages=target/packages/openmpi-$series
    fi
    [ -n "$(ls "$packages"/*.deb 2>/dev/null)" ] || debian_die "no packages in $packages; make them first: ./dev package"
}

prepare() {
    mkdir -p "$(dirname "$root")" "$logs"
    debian_make
    # The lists of testing are valid for a week, and a mirror may be older.
    debian_inside sh -c 'id user >/dev/null 2>&1 || useradd --create-home --uid 1000 user
        apt-get -o Acquire::Check-Valid-Until=false -qq update' >"$logs/$suite.update" 2>&1 ||
        { tail -3 "$logs/$suite.update" >&2; debian_die "apt-get update failed in there"; }
    find_packages
    rm -rf "$root/opt/project" "$root"/home/user/btl-ofi "$root"/home/user/.openmpi
    mkdir -p "$root/opt/project/target/packages"
    cp "$packages"/*.deb "$packages"/*.tar.gz "$root/opt/project/target/packages/"
    cp tests/openmpi/other_series.c host-stub/c/examples/halo.c \
        host-stub/c/examples/example.h "$root/opt/project/"
    chown -R 1000:1000 "$root/opt/project"
}

# Sets the line that the doctor prints if the launcher hides Open MPI's folder of components, as Debian
# 13's does.
heed_doctor() {
    local setting
    # The doctor fails if it finds a problem, as here.
    setting=$({ as_user 'host-stub doctor' || true; } | sed -n 's/^ *export \(OMPI_MCA_mca_base_component_path=.*\)/\1/p')
    if [ -n "$setting" ]; then
        printf '      %s: export %s\n' "$suite" "$setting"
        debian_environment+=("$setting")
    fi
}

# The README's line, as root and without questions.
installs() {
    local line
    line=$(readme_line 'sudo apt-get install') || return 1
    line="cd /opt/project && ${line/sudo apt-get/apt-get -y}"
    printf '%s\n' "$line"
    debian_inside sh -c "$line"
}

# README's program, compiled with the distribution's compiler.
compiles() {
    debian_inside apt-get -qq install -y --no-install-recommends gcc libc6-dev pkg-config libopenmpi-dev >/dev/null || return 1
    as_user "$(readme_line mpicc)"
}

# Open MPI lists both components without any setting.
is_found() {
    local out
    out=$(as_user 'ompi_info --param btl all --level 9') || return 1
    said "$out" 'MCA btl: ofi \(' "MCA btl: ofi_rs .*Component v$version" "btl_ofi_rs_implementation.*built for Open MPI $series" || return 1
    out=$(as_user 'ompi_info --param osc ofi_rs --level 9') || return 1
    said "$out" "MCA osc: ofi_rs .*Component v$version"
}

# README's line: windows belong to this component, or to other components if the user says so.
runs_line() {
    local line out
    line=$(readme_line "mpirun -n 2") || return 1
    printf '%s\n' "$line"
    out=$(as_user "$line") || { printf '%s\n' "$out"; return 1; }
    said "$out" "$went_well" "$served" || return 1
    out=$(as_user "${line/mpirun/mpirun --mca osc_ofi_rs_priority -1}") || { printf '%s\n' "$out"; return 1; }
    said "$out" "$went_well" '^hello_window: rdma window'
}

# As a BTL, below osc/rdma.
runs_as_btl() {
    local out
    out=$(as_user "OMPI_MCA_btl_ofi_verbose=1 $one_flag ./hello_window") || { printf '%s\n' "$out"; return 1; }
    said "$out" "$went_well" "$moved"
}

# Both components are loaded; parameters under the usual names reach this component, as numbers and as
# words.
stands_beside() {
    local out run='mpirun -n 2 --mca osc rdma,sm --mca btl self,vader,tcp,ofi,ofi_rs --mca btl_ofi_provider_include "tcp;ofi_rxm"'
    out=$(as_user "OMPI_MCA_btl_ofi_verbose=1 $run ./hello_window") || { printf '%s\n' "$out"; return 1; }
    said "$out" "$went_well" "$moved" 'btl:ofi:provider_include' || return 1
    out=$(as_user "$run --mca btl_ofi_mode 7 ./hello_window") || return 1
    said "$out" "$went_well" 'btl_ofi_mode: `7` is not allowed' || return 1
    out=$(as_user "$run --mca btl_ofi_progress_mode never ./hello_window") || return 1
    said "$out" "$went_well" 'btl_ofi_progress_mode: `never` is not allowed' || return 1
    # The limits that Open MPI registers for every BTL, with the C component loaded and without.
    for run in 'self,ofi,ofi_rs' 'self,ofi_rs'; do
        out=$(as_user "OMPI_MCA_btl=$run OMPI_MCA_btl_ofi_put_limit=65536 OMPI_MCA_btl_ofi_eager_limit=8192 ompi_info --param btl ofi_rs --level 9") ||
            return 1
        said "$out" 'btl_ofi_rs_put_limit" \(current value: "65536"' 'btl_ofi_rs_eager_limit" \(current value: "8192"' || return 1
    done
}

doctor() {
    local line out
    line=$(readme_line 'host-stub doctor') || return 1
    out=$(as_user "$line") || { printf '%s\n' "$out"; return 1; }
    said "$out" "ok +Open MPI +$series" 'ok +component +ofi_rs: mca-btl-ofi' 'ofi_rs serves windows' 'ok +libfabric +[12]\.' '^To set:' \
        'mpirun \./your_program' 'ok +/dev/shm'
}

checks_itself() {
    local line out
    line=$(readme_line 'host-stub check') || return 1
    out=$(as_user "$line") || { printf '%s\n' "$out" | tail -20; return 1; }
    said "$(tail -3 <<<"$out")" '^[1-9][0-9]* passed, 0 failed'
}

c_program() {
    local out
    out=$(as_user 'cc halo.c $(pkg-config --cflags --libs host-stub) -o halo && host-stub launch -n 4 --provider shm -- ./halo &&
        test -e "$(pkg-config --variable=plugin btl-plugin)" && echo done') || { printf '%s\n' "$out"; return 1; }
    said "$out" '^done'
}

has_pages() {
    local page
    for page in host-stub host-stub-check host-stub-doctor host-stub-launch; do
        said "$(as_user "gzip -dc /usr/share/man/man1/$page.1.gz")" '^\.TH host' '^\.SH' || return 1
    done
    said "$(as_user 'bash -c ". /usr/share/bash-completion/completions/host-stub && complete -p host-stub"')" 'complete .*host-stub'
}

# The tarball, installed by an ordinary user after the packages were removed.
tarball() {
    local out setting
    debian_inside apt-get -qq remove -y host-stub openmpi-ofi-rs >/dev/null || return 1
    out=$(as_user "tar xzf target/packages/$archive.tar.gz && ./$archive/install.sh --prefix ~/btl-ofi") || { printf '%s\n' "$out"; return 1; }
    said "$out" 'export PATH=/home/user/btl-ofi/bin' || return 1
    setting=$(sed -n 's/^  \(export OMPI_MCA_.*\)/\1/p' <<<"$out")
    out=$(as_user "$setting && mpirun -n 2 ./hello_window") || { printf '%s\n' "$out"; return 1; }
    said "$out" "$went_well" "$served" || return 1
    out=$(as_user 'export PATH=~/btl-ofi/bin:$PATH PKG_CONFIG_PATH=~/btl-ofi/lib/pkgconfig && rm -f halo &&
        cc halo.c $(pkg-config --cflags --libs host-stub) -Wl,-rpath,$HOME/btl-ofi/lib -o halo &&
        env -u HOST_STUB_PLUGIN host-stub launch -n 2 --provider shm -- ./halo && host-stub info --provider shm') ||
        { printf '%s\n' "$out"; return 1; }
    said "$out" 'shm .*accepted, chosen'
}

# try_release: the checks in one release, `suite`.
try_release() {
    local plain_environment=("${debian_environment[@]}")
    root=$(pwd)/target/bare/packages-$suite
    prepare
    check 'README: install' installs
    check 'a program is compiled' compiles
    check 'Open MPI finds the component by itself' is_found
    heed_doctor
    check 'README: mpirun' runs_line
    check 'as a BTL, by its name' runs_as_btl
    check 'beside the C component' stands_beside
    check 'README: doctor' doctor
    check 'README: check' checks_itself
    check 'a C program by pkg-config' c_program
    check 'manual pages and completions' has_pages
    trouble_of_packages
    debian_environment=("${plain_environment[@]}")
    check 'the tarball, without root' tarball
    trouble_of_tarball
    debian_leave
    root=
}

main() {
    while [ $# -gt 0 ]; do
        case "$1" in
            --keep) keep=yes ;;
            --clean) for suite in $releases; do root=$(pwd)/target/bare/packages-$suite; debian_remove; done; return ;;
            bookworm | trixie | testing) suite="$suite $1" ;;
            *) debian_die "unknown: $1 (--keep, --clean, or of $releases)" ;;
        esac
        shift
    done
    releases=${suite:-$releases}
    rm -rf "$logs"
    debian_trap
    for suite in $releases; do try_release; done
    if [ -e "$skips" ]; then cat "$skips"; fi
    if [ $failures -eq 0 ]; then
        printf '== bare --packages: passed in %d s\n' $SECONDS
    else
        printf '== bare --packages: %d FAILED, after %d s (%s)\n' $failures $SECONDS "$logs"
        return 1
    fi
}

main "$@"
