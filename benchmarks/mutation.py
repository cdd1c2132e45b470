"""The page of the mutation check, from what `mutmut run` left in mutants/.

    mutmut run && python -m benchmarks.mutation --commit $(git rev-parse --short HEAD) --write docs/evidence

A survivor is a changed line that no test fails on. `benchmarks/_survivors.py` gives the reason for each, or marks it as
a gap; a survivor without a reason is listed as a gap.
"""

from __future__ import annotations

import argparse
import ast
import csv
import difflib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks._survivors import GAP, reason_for

KILLED, TIMEOUT, SURVIVED = {1, 3}, {36, 24, -24, 152, 255}, {0, 33, 5}

HOW = """A mutant is the code with one small change: a `<` for a `<=`, a `+` for a `-`, an argument left out, a word of
an error in capitals. The tests of `fairgate/formulas`, of `run.py`, `check.py` and `parts.py` in `fairgate/records`,
and of `compare.py` and `verdicts.py` in `fairgate/suites` are run against each mutant; a mutant that no test fails on
survives. At least 90% must be killed, and every survivor has a reason
([mutation_survivors.csv](mutation_survivors.csv)). [mutation.csv](mutation.csv) has the figures of each file.

mutmut leaves out properties and code outside of functions. It reuses the result of a function until its source
changes, even if the tests change: run it from nothing.

    pip install mutmut           # 3.8; not a dependency of fairgate, and not part of `make check`
    mutmut run                   # pyproject.toml has the files to mutate and the tests to run; 20 to 60 minutes
    mutmut show NAME             # one survivor
    python -m benchmarks.mutation --commit $(git rev-parse --short HEAD) --write docs/evidence
"""
FILES = ("file", "mutants", "killed", "by running on", "not killed", "share killed")
SURVIVORS = ("file", "function", "before", "after", "reason")
MOST = 8
"""How many reasons the page lists; the CSV has all."""


@dataclass(frozen=True)
class Survivor:
    """A change that no test noticed."""

    function: str
    before: str
    after: str

    @property
    def reason(self) -> str:
        return reason_for(self.function, self.before, self.after)


@dataclass(frozen=True)
class File:
    """What became of the mutants of one file."""

    path: str
    killed: int
    timeouts: int
    unchecked: int
    survivors: list[Survivor]

    @property
    def mutants(self) -> int:
        return self.killed + self.timeouts + self.unchecked + len(self.survivors)


def read(mutants: Path) -> Iterator[File]:
    """The files that were mutated, in the order of their paths."""
    for meta in sorted(mutants.rglob("*.py.meta")):
        codes: dict[str, int | None] = json.loads(meta.read_text())["exit_code_by_key"]
        if codes:
            source = meta.with_suffix("")
            functions = _functions(source)
            names = [name.rsplit(".", 1)[1] for name, code in codes.items() if code in SURVIVED]
            yield File(
                path=source.relative_to(mutants).as_posix(),
                killed=sum(code in KILLED for code in codes.values()),
                timeouts=sum(code in TIMEOUT for code in codes.values()),
                unchecked=sum(code not in KILLED | TIMEOUT | SURVIVED for code in codes.values()),
                survivors=[_survivor(name, functions) for name in names],
            )


def _functions(source: Path) -> dict[str, list[str]]:
    text = source.read_text()
    lines = text.splitlines()
    nodes = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef))
    return {node.name: lines[node.lineno : node.end_lineno] for node in nodes}


def _survivor(name: str, functions: dict[str, list[str]]) -> Survivor:
    base = name.rsplit("__mutmut_", 1)[0]
    changes = list(difflib.ndiff(functions[f"{base}__mutmut_orig"], functions[name]))
    before, after = (" ".join(line[2:].strip() for line in changes if line[0] == sign) for sign in "-+")
    function = base.removeprefix("x_").replace("xǁ", "").replace("ǁ", ".").lstrip(".")
    return Survivor(function, before, after)


def _fragments(survivor: Survivor) -> tuple[str, str]:
    """The words around the change, before and after it."""
    one, other = survivor.before, survivor.after
    start = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    end = next(
        (i for i, (a, b) in enumerate(zip(one[:start:-1], other[:start:-1], strict=False)) if a != b),
        min(len(one), len(other)) - start - 1,
    )
    start = max(one.rfind(" ", 0, max(start - 14, 0)) + 1, 0)
    return _cut(one, start, end), _cut(other, start, end)


def _cut(text: str, start: int, end: int) -> str:
    stop = text.find(" ", max(len(text) - end + 10, start))
    return ("… " if start else "") + text[start : stop if stop > 0 else len(text)] + (" …" if stop > 0 else "")


def page(files: list[File], commit: str) -> str:
    """The page as Markdown."""
    mutants, survivors = sum(file.mutants for file in files), sum(len(file.survivors) for file in files)
    unchecked = sum(file.unchecked for file in files)
    worst = min(files, key=_share)
    reasons = Counter(survivor.reason for file in files for survivor in file.survivors).most_common()
    lines = ["# Mutation check of the metrics and statistics", ""]
    lines += ["| mutants | killed | survivors | gaps | lowest file |", "|-:|-:|-:|-:|-|"]
    lines.append(
        f"| {mutants:,} | {1 - (survivors + unchecked) / mutants:.1%} | {survivors} | {dict(reasons).get(GAP, 0)} "
        f"| `{worst.path}`, {_share(worst):.1%} |"
    )
    lines += ["", f"At commit {commit}.", "", HOW]
    lines += ["## Why survivors survive", "", "| reason | survivors |", "|-|-:|"]
    lines += [f"| {reason} | {number} |" for reason, number in reasons[:MOST]]
    lines.append(f"| {len(reasons[MOST:])} others | {sum(number for _, number in reasons[MOST:])} |")
    return "\n".join(lines) + "\n"


def _share(file: File) -> float:
    return (file.killed + file.timeouts) / file.mutants


def tables(files: list[File]) -> dict[str, list[Sequence[object]]]:
    """The CSV files beside the page."""
    dead = [(file, file.killed + file.timeouts) for file in files]
    return {
        "mutation.csv": [
            FILES,
            *(
                (file.path, file.mutants, killed, file.timeouts, file.mutants - killed, f"{_share(file):.1%}")
                for file, killed in dead
            ),
        ],
        "mutation_survivors.csv": [
            SURVIVORS,
            *((file.path, each.function, *_fragments(each), each.reason) for file in files for each in file.survivors),
        ],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutants", type=Path, default=Path("mutants"))
    parser.add_argument("--commit", required=True, help="what the mutants are of")
    parser.add_argument(
        "--write", type=Path, help="folder of mutation.md and its CSV files; else only the gaps are printed"
    )
    given = parser.parse_args()
    files = list(read(given.mutants))
    for file in files:
        for survivor in file.survivors:
            if survivor.reason == GAP:
                print(f"{file.path} {survivor.function}\n  - {survivor.before}\n  + {survivor.after}")
    if given.write:
        (given.write / "mutation.md").write_text(page(files, given.commit))
        for name, rows in tables(files).items():
            with (given.write / name).open("w", encoding="utf-8", newline="") as handle:
                csv.writer(handle, lineterminator="\n").writerows(rows)


if __name__ == "__main__":
    main()
