"""`python -P -m fairgate.cli`: the same command, where only the interpreter's path is known."""

from __future__ import annotations

from fairgate.cli.main import app

app(prog_name="fairgate")
