"""The figures as text for a terminal, and as the tables of docs/sidecar.md."""

from pathlib import Path
from typing import Any, Final

DOC: Final = Path(__file__).parents[2] / "docs" / "sidecar.md"
BEGIN: Final = "<!-- enforce: written by `python bench/enforce.py --save` -->"
END: Final = "<!-- enforce: end -->"


def render(report: dict[str, Any]) -> str:
    """Return one line for each case."""
    lines = [
        f"{'':32}{'CPU':>7}{'least':>7}{'us':>8}{'p50 ms':>9}{'p99 ms':>9}{'+p50':>8}{'+p99':>8}{'/s':>7}"
    ]
    for at_once, cases in report["table"].items():
        for name, row in cases.items():
            cpu = f"{row['cpu_ratio']:7.2f}{row['cpu_least']:7.2f}{row['cpu_us']:8.0f}"
            took = f"{row['p50_ms']:9.2f}{row['p99_ms']:9.2f}"
            added = f"{row['p50_added_ms']:8.2f}{row['p99_added_ms']:8.2f}"
            lines.append(f"{at_once + ' ' + name:32}{cpu}{took}{added}{row['per_second']:7}")
    lines += [f"{share:7.1%}  {name}" for name, share in report["profile"].items()]
    machine = report["machine"]
    lines.append(
        f"load {machine['load_before']} before and {machine['load_after']} after, {machine['cores']} cores,"
        f" {report['settings']['seconds']} s"
    )
    return "\n".join(lines)


def tables(report: dict[str, Any]) -> str:
    """Return what stands between the marks of docs/sidecar.md."""
    machine, settings = report["machine"], report["settings"]
    load = f"load {machine['load_before']} before and {machine['load_after']} after"
    said = (
        f"Medians of {settings['rounds']} rounds of {settings['calls']} calls on {machine['cores']} cores,"
        f" which callers, tool and NATS share; {load};"
        f" Python {machine['python']}, grpcio {machine['grpcio']}. C = calls in flight."
        " CPU is that of the process, over the proxy's: the median of the rounds' ratios and, in brackets,"
        " the ratio of the least in any round."
    )
    lines = [
        BEGIN,
        "",
        said,
        "",
        "| case | CPU C=1 | CPU C=32 | p50, p99 ms C=1 | p50, p99 ms C=32 | p50, p99 ms C=64 |",
        "|---|---|---|---|---|---|",
    ]
    table = report["table"]
    for name in table["C=1"]:
        one, many, more = (table[at_once][name] for at_once in ("C=1", "C=32", "C=64"))
        cells = (name, _ratio(one), _ratio(many), *map(_times, (one, many, more)))
        lines.append(f"| {' | '.join(cells)} |")
    if report["profile"]:
        lines += [
            "",
            "Where the CPU of a write at C=32 goes, under a profiler, which slows Python and no C:",
            "",
            "| part | share |",
            "|---|---|",
        ]
        lines += [f"| {name} | {share:.0%} |" for name, share in report["profile"].items() if share >= 0.005]
    return "\n".join([*lines, "", END])


def written(text: str, report: dict[str, Any]) -> str:
    """Return the page with the tables of `report`."""
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return head + tables(report) + tail


def write_table(report: dict[str, Any]) -> None:
    """Put the tables into docs/sidecar.md."""
    DOC.write_text(written(DOC.read_text(), report))


def _ratio(row: dict[str, float]) -> str:
    return f"{row['cpu_ratio']:.2f} ({row['cpu_least']:.2f})"


def _times(row: dict[str, float]) -> str:
    return f"{row['p50_ms']:.1f}, {row['p99_ms']:.1f}"
