"""Help as it is printed: whole, whatever is in brackets, also in a narrow terminal."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from typer.main import get_command
from typer.testing import CliRunner

from fairgate.interfaces.cli.main import app


def _commands(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield words, command
    for name in command.list_commands(None) if hasattr(command, "list_commands") else ():
        yield from _commands(command.get_command(None, name), (*words, name))


def test_no_help_loses_text_in_brackets_or_the_end_of_a_name() -> None:
    lost = []
    for words, command in _commands(get_command(app)):
        shown = "".join(CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "80"}).output.split())
        texts = [command.help or "", *(getattr(option, "help", None) or "" for option in command.params)]
        texts += [name for option in command.params for name in option.opts if name.startswith("-")]
        lost += [(words, text) for text in texts if "".join(text.split()) not in shown]
        assert not re.search(r"<(list|str|int|float|path)\b", shown), "a type of Python"
    assert not lost


def test_the_list_of_commands_imports_neither_models_nor_arrays_nor_records() -> None:
    code = "import sys; from fairgate.interfaces.cli.main import app; app(['--help'], standalone_mode=False)"
    program = f"{code}; print(*sys.modules, file=sys.stderr)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stderr.split()
    heavy = {"torch", "scipy", "numpy", "pyarrow", "mlflow", "pydantic", "yaml", "safetensors", "rich"}
    assert "fairgate.interfaces.cli.studies" in loaded  # the list builds each command
    assert not set(loaded) & heavy
    assert not [name for name in loaded if name.startswith("fairgate.records.")]
