"""A Python that has imported `fairgate build` and Ray once, and forks builds of the toy that can be killed.

Run as a program it is that Python. torch is never imported.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path

from forking_python import ForkingPython, serve

OWN_TOKEN = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
"""Nobody else may use the tests' Ray, and nothing is written to the home folder."""

_DEADLY = """
import os, signal
count, deadly = 0, {deadly}
def touch(event, arguments):
    global count
    if event == "open":
        if not isinstance(arguments[2], int) or not arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            return
        if "build" not in str(arguments[0]):
            return
    elif event not in ("os.rename", "os.remove", "os.mkdir"):
        return
    count += 1
    if count - 1 == deadly:
        os.kill(os.getpid(), signal.SIGKILL)
    with open({log!r}, "w") as handle:
        handle.write(str(count))
import sys
sys.addaudithook(touch)
"""


def deadly_touch(log: Path, number: int = -1) -> str:
    """A prelude: the build is killed as it is about to touch a file of its folder for the time `number`, from 0.

    The log holds how often it has.
    """
    return _DEADLY.format(deadly=number, log=str(log))


class Forge(ForkingPython):
    """Forks `fairgate WORDS`."""

    def __init__(self) -> None:
        super().__init__(__file__, OWN_TOKEN, python=sys.executable)


def _import() -> None:
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
    import pyarrow.parquet
    import ray
    import toy_recipe

    import fairgate.interfaces.cli.build
    import fairgate.interfaces.cli.main
    from fairgate.builds.recipes import register

    assert pyarrow.parquet
    assert ray
    assert fairgate.interfaces.cli.main
    register(toy_recipe.Toy)
    assert "torch" not in sys.modules, "a forge that imports torch starts slowly"


def _fairgate(words: Sequence[str]) -> int:
    from fairgate.interfaces.cli.main import app

    sys.argv = ["fairgate", *words]
    app()
    return 0


if __name__ == "__main__":
    _import()
    serve(_fairgate)
