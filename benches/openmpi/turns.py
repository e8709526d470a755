"""Sides that take turns, and what comes of it: medians, ratios turn by turn, a table."""

import sys

import running

# The side whose windows osc/ofi_rs makes.
WINDOWS = "ours, osc"


def low(unit):
    """Whether less is better."""
    return unit in ("us", "ms", "s")


def take(order, turns, limit, what=""):
    """Runs each side once a turn, every other turn in reverse. `order` has names, command lines and environments. Returns
    what each side measured in each turn, and which runs of ours failed."""
    found = {name: [] for name, *_ in order}
    failed = []
    for turn in range(turns):
        for name, line, environment in reversed(order) if turn % 2 else order:
            values, ended = running.run(line, limit, environment)
            found[name].append(values)
            print(f"{what}turn {turn + 1} of {turns}, {name}: {'ended' if ended else 'FAILED'}", file=sys.stderr, flush=True)
            if not ended and name.startswith("ours"):
                failed.append(f"{what}a run of {name} failed")
    return found, failed


def measured(found):
    """The measurements of any side, in their order, with their units; and the sides that measured anything: one that never
    did is not installed here, or does not work."""
    every = [run for runs in found.values() for run in runs]
    keys = {key: next(run[key][1] for run in every if key in run) for key in dict.fromkeys(key for run in every for key in run)}
    return keys, [name for name, runs in found.items() if any(runs)]


def values(found, name, key):
    """What a side measured, by turn; None where it did not."""
    return [run[key][0] if key in run else None for run in found[name]]


def ours_of(names, name):
    """The sides that a measurement is about. Windows are those of osc/ofi_rs, which osc/rdma over our own component competes
    with like any other side. Messages have no osc, so there it is the better one of our sides."""
    of_windows = not name.startswith("send")
    return [side for side in names if (side == WINDOWS if of_windows else side.startswith("ours"))]


def ratios(found, names, key, unit):
    """Our better side over each other side: the median of the turns' ratios, with the least and the most."""
    def better(column):
        column = [value for value in column if value is not None]
        return (min if low(unit) else max)(column) if column else None

    mine = ours_of(names, key[0])
    ours = [better(column) for column in zip(*(values(found, name, key) for name in mine))]
    over = {}
    for name in (name for name in names if name not in mine):
        each = [a / b for a, b in zip(ours, values(found, name, key)) if a is not None and b]
        if each:
            over[name] = (running.middle(each), min(each), max(each))
    return over


def judge(row, found, names, key, limit=None):
    """Adds to a row our ratio to the side that is furthest ahead of us, and whether it reaches the limit: at most, or at
    least where more is better. The limit is reached if one turn reaches it, because turns differ by chance. `names` are the
    sides that compete."""
    less = low(row["unit"])
    row["over"] = ratios(found, names, key, row["unit"])
    if row["over"]:
        row["best_other"] = (max if less else min)(row["over"], key=lambda side: row["over"][side][0])
        row["ratio"], *spread = row["over"][row["best_other"]]
    if limit is not None:
        row["limit"], row["target"] = limit, f"at {'most' if less else 'least'} {limit:g}"
        row["met"] = "ratio" in row and (spread[0] <= limit if less else spread[1] >= limit)


def target(name, row):
    """A judged row as the report has targets. A row without a measurement counts as not met."""
    other = row.get("best_other")
    return {
        "name": f"{name}: ours over {other or 'the best other'}", "value": row.get("ratio"),
        "bound": "at most" if low(row["unit"]) else "at least", "target": row["limit"], "unit": "times", "met": row["met"],
        "spread": list(row["over"][other][1:]) if other else None,
    }


def table(rows, names, leading):
    """A table of rows that hold the median of each side by name, the best in bold. `leading` are the fields that come first."""
    lines = ["| " + " | ".join([*leading, "unit", *names, "ours / best other", "target", "met"]) + " |",
             "| --- |" + " --: |" * (len(leading) - 1) + " --- |" + " --: |" * len(names) + " --: | --- | --- |"]
    for row in rows:
        compete = [row[name] for name in names if row.get(name) is not None]
        best = (min if low(row["unit"]) else max)(compete) if compete else None
        cells = [str(row[field]) for field in leading] + [row["unit"]]
        cells += [("**{}**" if best is not None and row.get(name) == best else "{}").format(running.number(row.get(name)))
                  for name in names]
        met = {True: "yes", False: "no", None: ""}[row.get("met")]
        lines.append("| " + " | ".join([*cells, running.number(row.get("ratio")), row.get("target", ""), met]) + " |")
    return "\n".join(lines)
