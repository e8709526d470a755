#!/usr/bin/env bash
# `./dev deny`: licences, sources and versions of the dependencies, and known defects in them, by cargo-deny and deny.toml.
#
# cargo-deny is taken from PATH, or built into target/tools. The database of known defects is a git repository: if it
# cannot be fetched, the last copy is used, and without a copy this part is skipped.
set -euo pipefail
cd "$(dirname "$0")/.."

tools=$(pwd)/target/tools
PATH=$PATH:$tools/bin
log=$tools/deny.log

if [ $# -ne 0 ]; then
    printf 'deny: unknown: %s (no arguments)\n' "$1" >&2
    exit 2
fi
mkdir -p "$tools"
if ! command -v cargo-deny >/dev/null; then
    printf 'deny: building cargo-deny in %s, once\n' "$tools"
    cargo install --quiet --locked --version '^0.20' --root "$tools" --target-dir "$tools/build" cargo-deny
    rm -rf "$tools/build"
fi

status=0
cargo deny --locked check licenses bans sources || status=1
if ! timeout 120 cargo deny --locked fetch db >"$log" 2>&1; then
    printf 'deny: the database of known defects was not brought up to date (%s): %s\n' "$log" "$(grep . "$log" | tail -1)"
fi
if compgen -G "${CARGO_HOME:-$HOME/.cargo}/advisory-dbs/*/crates" >/dev/null; then
    cargo deny --locked --offline check advisories || status=1
else
    printf 'deny: skipped: known defects and versions taken back, for which there is no database here\n'
fi
exit $status
