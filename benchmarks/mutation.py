"""The page of the mutation check, from what `mutmut run` left in mutants/.

    mutmut run && python -m benchmarks.mutation --commit $(git rev-parse --short HEAD) --write docs/mutation.md

A survivor is a changed line that no test objects to. `benchmarks/_survivors.py` says, for each, why that is right, or
that it is a gap; one without a reason is listed as a gap.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks._survivors import GAP, reason_for

KILLED, TIMEOUT, SURVIVED = {1, 3}, {36, 24, -24, 152, 255}, {0, 33, 5}

INTRO = """# Mutation check of the metrics and statistics

A mutant is the code with one small change: a `<` for a `<=`, a `+` for a `-`, an argument left out, a word of an
error in capitals. The tests of `fairgate/metrics`, `fairgate/statistics` and of `run.py`, `check.py` and `parts.py` in
`fairgate/records` are run against each; one that they do not notice survives. At least 90% must be killed, and every
survivor has a reason.

mutmut leaves out properties and what stands outside functions. It keeps the result of a function until its source
changes, whatever becomes of the tests; the table is of one run from nothing.

    pip install mutmut           # 3.8; no dependency of fairgate, and no part of `make check`
    mutmut run                   # what to mutate, and the tests to run, stand in pyproject.toml; 20 to 60 minutes
    mutmut show NAME             # one survivor
    python -m benchmarks.mutation --commit $(git rev-parse --short HEAD) --write docs/mutation.md
"""


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
    share = 1 - (survivors + unchecked) / mutants
    lines = [INTRO, f"At {commit}: {mutants} mutants, {share:.1%} killed.", ""]
    lines += ["| file | mutants | killed | of these by running on | survivors | share killed |", "|-|-:|-:|-:|-:|-:|"]
    for file in files:
        dead = file.killed + file.timeouts
        lines.append(
            f"| `{file.path}` | {file.mutants} | {dead} | {file.timeouts} | {file.mutants - dead} "
            f"| {dead / file.mutants:.1%} |"
        )
    reasons = Counter(survivor.reason for file in files for survivor in file.survivors)
    lines += ["", "## Why survivors survive", "", "| reason | survivors |", "|-|-:|"]
    lines += [f"| {reason} | {number} |" for reason, number in reasons.most_common()]
    lines += ["", "## Every survivor", ""]
    for file in files:
        if file.survivors:
            lines += [f"### {file.path}", "", "| function | before | after | reason |", "|-|-|-|-|"]
            lines += [_row(survivor) for survivor in file.survivors]
            lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _row(survivor: Survivor) -> str:
    before, after = (text.replace("|", "\\|") for text in _fragments(survivor))
    return f"| `{survivor.function}` | `{before}` | `{after}` | {survivor.reason} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutants", type=Path, default=Path("mutants"))
    parser.add_argument("--commit", required=True, help="what the mutants are of")
    parser.add_argument("--write", type=Path, help="the page; else only the gaps are printed")
    given = parser.parse_args()
    files = list(read(given.mutants))
    for file in files:
        for survivor in file.survivors:
            if survivor.reason == GAP:
                print(f"{file.path} {survivor.function}\n  - {survivor.before}\n  + {survivor.after}")
    if given.write:
        given.write.write_text(page(files, given.commit))


if __name__ == "__main__":
    main()
