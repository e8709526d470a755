#!/bin/sh
# Installs the files beside this script into a folder of the user, without root, and prints the lines to set.
#
#   ./install.sh --prefix FOLDER
set -eu

here=$(cd "$(dirname "$0")" && pwd)
version=$(cat "$here/VERSION")
series=$(cat "$here/SERIES")

die() { printf 'install.sh: %s\n' "$*" >&2; exit 1; }
note() { printf 'install.sh: note: %s\n' "$*" >&2; }

prefix=
while [ $# -gt 0 ]; do
    case $1 in
        --prefix) [ $# -ge 2 ] || die "--prefix needs a folder"; prefix=$2; shift 2 ;;
        --prefix=*) prefix=${1#--prefix=}; shift ;;
        -h | --help) sed -n '2,4s/^# \{0,1\}//p' "$0"; exit 0 ;;
        *) die "unknown: $1 (only --prefix FOLDER)" ;;
    esac
done
[ -n "$prefix" ] || die "say where to install: ./install.sh --prefix \$HOME/btl-ofi"

case $prefix in /*) ;; *) prefix=$(pwd)/$prefix ;; esac
# Open MPI divides a list of folders at colons, and a value in its files ends at a blank.
case $prefix in
    *[[:space:]:]*) die "$prefix has a blank or a colon in its name, which Open MPI's lists of folders cannot hold; name another folder" ;;
esac
mkdir -p "$prefix" 2>/dev/null && [ -w "$prefix" ] ||
    die "$prefix cannot be written by $(id -un); name a folder that can: --prefix /path/to/project/btl-ofi"
prefix=$(cd "$prefix" && pwd)
[ "$prefix" != "$here" ] || die "$prefix is the unpacked archive itself; name another folder"
"$here/bin/host-stub" --version >/dev/null 2>&1 ||
    die "the programs do not run here: $("$here/bin/host-stub" --version 2>&1 | tail -1). Build them from the sources on this system: cargo build --release -p host-stub-command -p btl-ofi-plugin -p host-stub-c, and ./dev openmpi for the component"

old=$prefix/share/btl-ofi-rs/VERSION
if [ -e "$old" ] && [ "$(cat "$old")" != "$version" ]; then
    note "version $(cat "$old") in $prefix is replaced by $version; programs that run now keep the old files until they end"
fi

# Each file is written under another name and renamed: a running program keeps the file that it has
# mapped.
(cd "$here" && find bin lib include share -type f -o -type l) | while read -r file; do
    mkdir -p "$prefix/$(dirname "$file")"
    cp -Pp "$here/$file" "$prefix/$file.new"
    mv -f "$prefix/$file.new" "$prefix/$file"
done
mkdir -p "$prefix/share/btl-ofi-rs"
cp "$here/VERSION" "$old"

folders=
if ! command -v ompi_info >/dev/null 2>&1; then
    note "no Open MPI is on the PATH (ompi_info), so that only host-stub is set up; load Open MPI $series and run this again"
else
    found=$(ompi_info --version 2>/dev/null | sed -n 's/^Open MPI v//p')
    case $found in
        "$series".*)
            system=$(ompi_info --parsable --path pkglibdir | sed 's/^path:pkglibdir://')
            folders=$prefix/lib/openmpi-$series:$system
            ;;
        *) note "Open MPI $found is on the PATH, and the component is for $series: host-stub is installed, the component is not used; build it from source for this release: ./dev openmpi" ;;
    esac
fi
printf 'btl-ofi %s is in %s. For a shell:\n\n' "$version" "$prefix"
printf '  export PATH=%s/bin:$PATH MANPATH=%s/share/man: PKG_CONFIG_PATH=%s/lib/pkgconfig\n' "$prefix" "$prefix" "$prefix"
if [ -n "$folders" ]; then printf '  export OMPI_MCA_mca_base_component_path=%s\n' "$folders"; fi
printf '  mpirun ./your_program\n'
printf '  host-stub doctor\n'
