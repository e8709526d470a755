#!/usr/bin/env python3
"""Fails when files of a crate depend on each other in a larger circle than before, a layer on a higher one, or a carrier on another one.

A file uses another one if it names it by a path (`crate::a::b`), or calls a method that only the other one defines: an `impl` spread
over files is one place, which paths alone do not show. Test files are left out. LIMITS has the largest circle of each crate that is
watched. A change that makes it smaller lowers the limit.

usage: file_cycles.py [--show]      --show: the files of each circle, and what leads from one to the next
"""

import re
import sys
from pathlib import Path

LIMITS = {"btl-ofi/core": 6, "host-stub": 7, "host-stub/osc": 3}

# Names that the standard library or the engine uses, too, so a call does not tell the method's owner.
SHARED = set(
    """add all and any begin check clear clone close collect complete contains copied count default drain drop end entry
    extend fill filter find flush fold from functions get index insert into is_empty iter iter_mut join keys kind last len load lock
    map max min name new next open parse pop position push rank read recv remove reserve run send size skip sort split start
    stop store sub sum swap take test try_take wait windows write""".split()
)
COMMENT_OR_STRING = re.compile(r"//[^\n]*|b?'(?:\\.|[^'\\\n])'" + r'|"(?:\\.|[^"\\])*"', re.DOTALL)
PATH = re.compile(r"\b(crate|(?:super::)*super)::((?:\w+::)*\w+)")
LAYER = re.compile(r"^//! \| `(\w+)` \|", re.M)
DEFINED = re.compile(r"\bfn (\w+)")
CALLED = re.compile(r"(?:\.|\bSelf::)(\w+)(?:::<[^>]*>)?\(")


def read(crate):
    """The code of each file, by its module path."""
    files = {}
    source = Path(crate) / "src"
    for file in sorted(source.rglob("*.rs")):
        if file.stem.endswith("tests"):
            continue
        module = file.relative_to(source).with_suffix("").parts
        if module[-1] in ("mod", "lib"):
            module = module[:-1]
        code = file.read_text(encoding="utf-8").split("#[cfg(test)]\nmod tests {")[0]
        files[module] = COMMENT_OR_STRING.sub("", code)
    return files


def uses(files):
    """For each file, those it uses, each with the name that shows it."""
    owners = {}
    for module, code in files.items():
        for name in DEFINED.findall(code):
            owners.setdefault(name, set()).add(module)
    found = {module: {} for module in files}
    for module, code in files.items():
        for root, rest in PATH.findall(code):
            base = () if root == "crate" else module[: -root.count("super")]
            path = base + tuple(rest.split("::"))
            while path and path not in files:
                path = path[:-1]
            if path and path != module:
                found[module].setdefault(path, rest)
        for name in CALLED.findall(code):
            owner = owners.get(name, set())
            if name not in SHARED and len(owner) == 1 and module not in owner:
                found[module].setdefault(next(iter(owner)), f"{name}()")
    return found


def reach(graph, start):
    """The files that one leads to."""
    seen, rest = set(), [start]
    while rest:
        for other in graph[rest.pop()]:
            if other not in seen:
                seen.add(other)
                rest.append(other)
    return seen


def circles(graph):
    """Sets of files in which each file leads to each other, the largest first."""
    reached = {module: reach(graph, module) for module in graph}
    found = {
        frozenset(other for other in reached[module] if module in reached[other])
        for module in graph
        if module in reached[module]
    }
    return sorted(found, key=len, reverse=True)


def upward(crate, graph):
    """Uses of a folder by one above it in the table, which the documentation of the crate has."""
    order = LAYER.findall((Path(crate) / "src/lib.rs").read_text(encoding="utf-8"))
    for module, others in sorted(graph.items()):
        for other, name in sorted(others.items()):
            tops = [part[0] for part in (module, other) if part and part[0] in order]
            # Paths only, because a method's name does not always tell its owner.
            if len(tops) == 2 and not name.endswith("()") and order.index(tops[1]) > order.index(tops[0]):
                yield f"{'/'.join(module)}: {'/'.join(other)} ({name})"


def sideways(crate, graph):
    """Uses of a carrier by another one. The table of carrier/mod.rs names them."""
    carriers = Path(crate) / "src/carrier/mod.rs"
    names = LAYER.findall(carriers.read_text(encoding="utf-8")) if carriers.exists() else []
    for module, others in sorted(graph.items()):
        for other, name in sorted(others.items()):
            pair = [part[1] for part in (module, other) if part[:1] == ("carrier",) and part[1:2] and part[1] in names]
            if len(pair) == 2 and pair[0] != pair[1]:
                yield f"{'/'.join(module)}: {'/'.join(other)} ({name})"


def main():
    failed = False
    for crate, limit in LIMITS.items():
        graph = uses(read(crate))
        found = circles(graph)
        largest = len(found[0]) if found else 0
        print(f"{crate}: the largest circle of files has {largest}, at most {limit}")
        shown = found if "--show" in sys.argv else found[:1] if largest > limit else []
        for circle in shown:
            for module in sorted(circle):
                to = [f"{'/'.join(o)} ({n})" for o, n in sorted(graph[module].items()) if o in circle]
                print(f"  {'/'.join(module)}: {', '.join(to)}")
        for use in upward(crate, graph):
            failed = True
            print(f"  a layer uses one that is below it in the table of {crate}/src/lib.rs: {use}")
        for use in sideways(crate, graph):
            failed = True
            print(f"  a carrier uses another one: {use}")
        if largest != limit:
            failed = True
            print(f"{'too large' if largest > limit else f'smaller: write {largest} in LIMITS'} ({crate})")
    return failed


if __name__ == "__main__":
    sys.exit(main())
