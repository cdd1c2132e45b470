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
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

from benchmarks._survivors import GAP, reason_for

KILLED, TIMEOUT, SURVIVED = {1, 3}, {36, 24, -24, 152, 255}, {0, 33, 5}

HOW = """A mutant is the code with one small change: a `<` for a `<=`, a `+` for a `-`, an argument left out, a word of
an error in capitals. The tests of `fairgate/formulas`, of `run.py`, `check.py` and `parts.py` in `fairgate/records`,
and of `compare.py` and `verdicts.py` in `fairgate/suites` are run against each mutant; a mutant that no test fails on
survives. The aim is that 90% are killed in every file, and that every survivor has a reason
([mutation_survivors.csv](mutation_survivors.csv)); one that has none yet is a gap. [mutation.csv](mutation.csv) has the
figures of each file.

mutmut leaves out what is decorated and code outside of functions; `open_properties` makes properties methods first. It
reuses the result of a function until its source changes, even if the tests change: run it from nothing.
`run_mutants` runs the mutants in a tenth of the time that mutmut takes. mutmut 3.8 reads `item._nodeid`, which pytest
9.2 no longer has: write `item.nodeid` in its `runners/harness.py`.

    pip install mutmut           # 3.8; not a dependency of fairgate, and not part of `make check`
    git clone . ../mutated && cd ../mutated
    python -m benchmarks.open_properties fairgate/records/*.py fairgate/suites/*.py fairgate/formulas/statistics/*.py
    mutmut run 'fairgate.suites.compare.x__once__mutmut_1'   # makes all, and notes which tests reach what
    python -m benchmarks.run_mutants                         # pyproject.toml has the files and the tests
    mutmut show NAME                                         # one survivor
    cd - && python -m benchmarks.mutation --mutants ../mutated/mutants --commit $(git rev-parse --short HEAD) \\
      --write docs/evidence
"""
FILES = ("file", "commit", "mutants", "killed", "by running on", "not killed", "share killed")
SURVIVORS = ("file", "function", "before", "after", "reason")
TABLES = ("mutation.csv", "mutation_survivors.csv")
MOST = 8
"""How many reasons the page lists; the CSV has all."""


@dataclass(frozen=True)
class Survivor:
    """A change that no test noticed: the words around it, `before` and `after`."""

    function: str
    before: str
    after: str
    reason: str


@dataclass(frozen=True)
class File:
    """What became of the mutants of one file, as it was at a commit."""

    path: str
    commit: str
    killed: int
    timeouts: int
    unchecked: int
    survivors: list[Survivor]

    @property
    def mutants(self) -> int:
        return self.killed + self.timeouts + self.unchecked + len(self.survivors)


def read(mutants: Path, commit: str) -> Iterator[File]:
    """The files of which all mutants were run."""
    for meta in sorted(mutants.rglob("*.py.meta")):
        codes: dict[str, int | None] = json.loads(meta.read_text())["exit_code_by_key"]
        if codes and None not in codes.values():
            source = meta.with_suffix("")
            functions = _functions(source)
            names = [name.rsplit(".", 1)[1] for name, code in codes.items() if code in SURVIVED]
            yield File(
                path=source.relative_to(mutants).as_posix(),
                commit=commit,
                killed=sum(code in KILLED for code in codes.values()),
                timeouts=sum(code in TIMEOUT for code in codes.values()),
                unchecked=sum(code not in KILLED | TIMEOUT | SURVIVED for code in codes.values()),
                survivors=[_survivor(name, functions) for name in names],
            )


def earlier(folder: Path, measured: set[str]) -> Iterator[File]:
    """Files that are not among the `measured`, as the tables of the page have them from an earlier run."""
    rows, survivors = (list(csv.DictReader((folder / name).open(encoding="utf-8"))) for name in TABLES)
    for row in rows:
        path, timeouts = row["file"], int(row["by running on"])
        if path not in measured and Path(path).exists():
            own = [Survivor(*(each[key] for key in SURVIVORS[1:])) for each in survivors if each["file"] == path]
            killed, unchecked = int(row["killed"]) - timeouts, int(row["not killed"]) - len(own)
            yield File(path, row["commit"], killed, timeouts, unchecked, own)


def _functions(source: Path) -> dict[str, list[str]]:
    text = source.read_text()
    lines = text.splitlines()
    nodes = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef))
    own = {node.name: "\n".join(lines[node.lineno - 1 : node.end_lineno]) for node in nodes}
    return {name: body.replace(name, "").splitlines() for name, body in own.items()}


def _survivor(name: str, functions: dict[str, list[str]]) -> Survivor:
    base = name.rsplit("__mutmut_", 1)[0]
    changes = list(difflib.ndiff(functions[f"{base}__mutmut_orig"], functions[name]))
    before, after = (" ".join(line[2:].strip() for line in changes if line[0] == sign) for sign in "-+")
    function = base.removeprefix("x_").replace("xǁ", "").replace("ǁ", ".").lstrip(".")
    function = re.sub("(?<!_)_$", "", function)  # a method that `open_properties` made
    return Survivor(function, *_fragments(before, after), reason_for(function, before, after))


def _fragments(one: str, other: str) -> tuple[str, str]:
    """The words around the change, before and after it."""
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


def unfinished(mutants: Path) -> Iterator[str]:
    """The files of which some mutants were not run."""
    for meta in sorted(mutants.rglob("*.py.meta")):
        if None in json.loads(meta.read_text())["exit_code_by_key"].values():
            yield meta.with_suffix("").relative_to(mutants).as_posix()


def page(files: list[File], missing: Sequence[str] = (), note: str = "") -> str:
    """The page as Markdown; `missing` are files without figures."""
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
    commits = Counter(file.commit for file in files).most_common()
    lines += ["", "Files by the commit at which they were measured: " + _counted(commits) + ". " + note, ""]
    lines += [f"Not measured: {', '.join(missing)}.", ""] if missing else []
    lines += [HOW]
    lines += ["## Why survivors survive", "", "| reason | survivors |", "|-|-:|"]
    lines += [f"| {reason} | {number} |" for reason, number in reasons[:MOST]]
    lines.append(f"| {len(reasons[MOST:])} others | {sum(number for _, number in reasons[MOST:])} |")
    return "\n".join(lines) + "\n"


def _counted(commits: list[tuple[str, int]]) -> str:
    return ", ".join(f"{number} at {commit}" for commit, number in commits)


def _share(file: File) -> float:
    return (file.killed + file.timeouts) / file.mutants


def tables(files: list[File]) -> dict[str, list[Sequence[object]]]:
    """The CSV files beside the page."""
    return {
        TABLES[0]: [
            FILES,
            *(
                (file.path, file.commit, file.mutants, dead, file.timeouts, file.mutants - dead, f"{_share(file):.1%}")
                for file, dead in ((file, file.killed + file.timeouts) for file in files)
            ),
        ],
        TABLES[1]: [
            SURVIVORS,
            *((file.path, *astuple(each)) for file in files for each in file.survivors),
        ],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutants", type=Path, nargs="+", default=[Path("mutants")], help="of runs of parts, all")
    parser.add_argument("--commit", required=True, help="what the mutants are of")
    parser.add_argument(
        "--write", type=Path, help="folder of mutation.md and its CSV files; else only the gaps are printed"
    )
    parser.add_argument("--note", default="", help="a sentence on how this run differs from what the page says")
    given = parser.parse_args()
    files = [file for mutants in given.mutants for file in read(mutants, given.commit)]
    for file in files:
        for survivor in file.survivors:
            if survivor.reason == GAP:
                print(f"{file.path} {survivor.function}\n  - {survivor.before}\n  + {survivor.after}")
    if given.write:
        files += earlier(given.write, {file.path for file in files})
        files.sort(key=lambda file: file.path)
        missing = {path for mutants in given.mutants for path in unfinished(mutants)} - {file.path for file in files}
        (given.write / "mutation.md").write_text(page(files, sorted(missing), given.note))
        for name, rows in tables(files).items():
            with (given.write / name).open("w", encoding="utf-8", newline="") as handle:
                csv.writer(handle, lineterminator="\n").writerows(rows)


if __name__ == "__main__":
    main()
