"""`python -P -m fairgate.interfaces.cli`: the same command, where only the interpreter's path is known."""

from __future__ import annotations

from fairgate.interfaces.cli.main import app

app(prog_name="fairgate")
