"""Every `fairgate` command in the documentation is one, and has the options that it is given."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from documents import PAGES, ROOT, fences, name_of, prose

from fairgate.interfaces.cli.main import app

ROOT_COMMAND = typer.main.get_command(app)
_ENDS = {"|", ">", ">>", "&&", "||", ";", "#", "...", "&"}
WRITING = [page for page in PAGES if page.name not in ("CHANGELOG.md", "commands.md")]
"""Not the changelog, which has commands of other versions, nor the page that is made of the commands."""


def commands_of(page: Path) -> list[str]:
    """Command lines of fenced and indented blocks, continued ones joined, and commands in the text."""
    indented = "\n".join(line for line in prose(page).splitlines() if line.startswith("    "))
    blocks = [*(block for _, block in fences(page)), indented]
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    found = [match[1] for line in lines if (match := re.match(r"\s*(?:\$ )?(fairgate \S.*)", line))]
    return [*found, *re.findall(r"(?<!`)`(fairgate [^`]+)`", prose(page))]


@pytest.mark.parametrize("page", WRITING, ids=name_of)
def test_commands_and_their_options_are_there(page: Path) -> None:
    for line in commands_of(page):
        fault = _fault(line)
        assert fault is None, f"{line}: {fault}"


def test_every_build_of_a_page_is_in_the_file_of_builds_that_its_command_names() -> None:
    made = re.compile(r"fairgate build (?!(?:run|preflight|status)\b)([a-z][\w-]*)(?:[^#]* --params (\S+))?")
    builds = {match.groups() for page in WRITING for line in commands_of(page) if (match := made.match(line))}
    assert len(builds) >= 8
    for file in {file for _, file in builds}:
        text = (ROOT / (file or "params.yaml")).read_text(encoding="utf-8")
        assert {name for name, own in builds if own == file} <= set(yaml.safe_load(text)["builds"])


def test_a_wrong_command_or_option_is_noticed() -> None:
    assert _fault("fairgate chek occupations") == "no command 'chek'"
    assert _fault("fairgate baseline renew x") == "no command 'renew'"
    assert _fault("fairgate check x --modle y") == "no option --modle"
    assert _fault("fairgate check x --model y  # words --of a comment") is None


def _fault(line: str) -> str | None:
    """What is wrong with a command; placeholders (`NAME`, `...`) are fine."""
    command: Any = ROOT_COMMAND
    words = iter(
        shlex.split(re.sub(r"\s#.*", "", line).replace("'", '"') if line.count("'") % 2 else line, comments=True)
    )
    next(words)
    for word in words:
        if word in _ENDS:
            break
        if hasattr(command, "get_command") and not word.startswith("-"):
            context = typer.Context(command)
            inner = command.get_command(context, word)
            if inner is None and command.name == "build":
                inner = command.get_command(context, "run")  # `fairgate build NAME`
            if inner is None:
                return f"no command '{word}'"
            command = inner
        elif word.startswith("--"):
            known = {flag for one in command.params for flag in (*one.opts, *one.secondary_opts)} | {"--help"}
            if word.partition("=")[0] not in known:
                return f"no option {word}"
    return None
