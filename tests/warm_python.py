"""A Python that has imported everything once, for tests that start fairgate or pytest many times.

`warm_python()` is the path of a program, called as `python -P -m fairgate.interfaces.cli WORDS`, as
`python -m pytest WORDS` or, by pytest-xdist for its workers, as `python -u -c CODE`: it hands its words, folder,
environment and open files to a server, which forks. A fork costs milliseconds; a fresh interpreter imports for a
second, with PyTorch for five. Other words start a Python as ever. Tests about what is imported, and from where, take
`sys.executable`.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import io
import marshal
import os
import pkgutil
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import traceback
import warnings
from pathlib import Path
from typing import Any, NoReturn

import pytest

_PACKAGES = (
    "builds",
    "data",
    "data.remote",
    "formulas.metrics",
    "formulas.statistics",
    "gate",
    "gate.baselines",
    "gate.selftest",
    "interfaces.cli",
    "metrics",
    "models",
    "models.checkpoints",
    "portraits",
    "probes",
    "reports",
    "studies.comparison",
    "suites",
    "tracking",
)
_OF_RUNS = (
    "PIL.Image",
    "PIL.ImageOps",
    "diffusers",
    "email.policy",
    "encodings.utf_8_sig",
    "hypothesis.extra.numpy",
    "importlib_metadata._adapters",
    "pyarrow.compute",
    "pyarrow.csv",
    "pyarrow.parquet",
    "scipy.stats",
    "sklearn.linear_model",
    "typer._adapters",
)
_OF_PLUGINS = (
    "asyncio",
    "attr",
    "execnet",
    "omegaconf",
    "pdb",
    "pytest",
    "rich.live",
    "rich.table",
    "sortedcontainers",
)
_SHARED = "WARM_PYTHON"
CALLS = {"fairgate": ["-P", "-m", "fairgate.interfaces.cli"], "pytest": ["-m", "pytest"], "code": ["-u", "-c"]}
_CLIENT = """\
#!{python} -SI
import marshal, posix, sys, _socket  # json, os and socket take 10 ms for each call
words = sys.argv[1:]
program = next((name for name, call in {calls!r}.items() if words[: len(call)] == call), None)
if program is None:
    posix.execv({python!r}, [{python!r}, *words])
words = words[len({calls!r}[program]) :]
server = _socket.socket(_socket.AF_UNIX)
server.connect({address!r})
files = b"".join(number.to_bytes(4, sys.byteorder) for number in range(3))
server.sendmsg([b"f"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, files)])
server.sendall(marshal.dumps((program, words, posix.getcwd(), posix.environ)))
server.shutdown(_socket.SHUT_WR)
answer = b""
while not answer.endswith(b"\\n") and (more := server.recv(64)):
    answer += more
sys.exit(int(answer) if answer else 137)
"""


@functools.cache
def warm_python() -> str:
    """The path of the program; its server is started once for a run and its workers, and ends with this process."""
    if _SHARED in os.environ:
        return os.environ[_SHARED]
    folder = Path(tempfile.mkdtemp(prefix="warm-"))
    client, address = folder / "python", str(folder / "socket")
    client.write_text(_CLIENT.format(python=sys.executable, calls=CALLS, address=address), encoding="utf-8")
    client.chmod(0o755)
    # threads of before a fork are not there after it
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MLFLOW_DISABLE_TELEMETRY": "true"}
    server = subprocess.Popen(
        [sys.executable, "-P", __file__, address, str(client), *(sys.modules.keys() & {"line_coverage"})],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    )

    def close() -> None:
        server.kill()
        with server:  # closes its pipes
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(close)
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n", "the warm Python did not start"
    os.environ[_SHARED] = str(client)
    return str(client)


def _serve(address: str, client: str, *first: str) -> None:
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(address)
    listening.listen()
    print("ready", flush=True)  # who calls before everything is imported waits
    for name in first:
        importlib.import_module(name)
    import_everything()
    if os.environ.get("FAIRGATE_TESTS") != "all":
        migrate_once()
    sys.executable = client  # what a fork starts is a fork too
    gc.collect()
    gc.freeze()  # or a fork's collections copy every page of what is imported
    use_huge_pages()
    while True:
        asked, _ = listening.accept()
        if os.fork() == 0:
            listening.close()
            _child(asked)
        asked.close()
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass


def import_everything() -> None:
    """Imports, and what each run reads again, only: no model and no pool of threads may be there when a run is forked.

    Of pytest's plugins, what they import: pytest warns of a plugin that was imported before it could rewrite it.
    """
    for name in (*_OF_RUNS, *_OF_PLUGINS):
        importlib.import_module(name)
    for name in _PACKAGES:
        package = importlib.import_module(f"fairgate.{name}")
        for module in pkgutil.iter_modules(package.__path__, f"fairgate.{name}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    from fairgate.reports import standalone_page

    templates = standalone_page._environment()
    for name in templates.list_templates(filter_func=lambda name: name.endswith(".j2")):
        templates.get_template(name)
    with warnings.catch_warnings():  # as where fairgate imports it: of deprecated calls of what it imports
        warnings.simplefilter("ignore")
        importlib.import_module("mlflow.store.tracking.sqlalchemy_store")  # 1.5 s, for each run that MLflow is told of
    importlib.import_module("sqlalchemy.orm").configure_mappers()
    importlib.import_module("torch").set_num_threads(1)
    importlib.import_module("PIL.Image").preinit()
    read_tokenizer_once()
    from fairgate.ground import plugins

    plugins._entry_points(tuple(sys.path))  # a fork with another path reads them again


def use_huge_pages() -> None:
    """Move this process's memory, 700 MB, to pages of 2 MB where Linux has them: a fork copies a table with a row for
    each page, which takes 15 ms for these and 46 ms for pages of 4 kB."""
    import ctypes

    size, madv_collapse = 2 << 20, 25  # since Linux 6.1; an older one refuses it, and forks take longer
    maps = Path("/proc/self/maps")
    libc = ctypes.CDLL(None)
    for line in maps.read_text(encoding="utf-8", errors="replace").splitlines() if maps.exists() else ():
        place, rights, _, _, file, *_ = line.split()
        if rights == "rw-p" and file == "0":  # memory of no file
            first, end = (int(address, 16) for address in place.split("-"))
            for address in range(-(-first // size) * size, end - size + 1, size):
                libc.madvise(ctypes.c_void_p(address), ctypes.c_size_t(size), madv_collapse)


def read_tokenizer_once() -> None:
    """open_clip reads 49,000 merges for each model that is opened, which takes longer than a tiny model does."""
    from open_clip.tokenizer import SimpleTokenizer

    read, kept = SimpleTokenizer.__init__, dict[str, dict[str, Any]]()
    if hasattr(SimpleTokenizer, "reads_once"):
        return

    def init(self: SimpleTokenizer, *arguments: Any, context_length: int | None = 77, **options: Any) -> None:
        name = repr((arguments, options))
        if name not in kept:
            read(self, *arguments, **options)
            kept[name] = vars(self).copy()
        vars(self).update(kept[name], context_length=context_length)

    SimpleTokenizer.__init__, SimpleTokenizer.reads_once = init, True
    SimpleTokenizer()


def migrate_once() -> None:
    """MLflow makes the tables of a new store by dozens of migrations, which takes a second: they run once, and further
    SQLite stores of this process and its forks begin as a copy of those tables. The night has every store migrated."""
    from mlflow.store.db import utils
    from sqlalchemy import Engine, inspect
    from sqlalchemy.exc import OperationalError

    migrate = utils._initialize_tables
    with tempfile.TemporaryDirectory(prefix="tables-") as folder:
        place = Path(folder, "tables.db")
        if (child := os.fork()) == 0:  # what migrations import and configure stays there
            _migrate_and_leave(place)
        assert os.waitpid(child, 0)[1] == 0, "MLflow did not make its tables"
        tables = place.read_bytes()

    def copied(engine: Engine) -> None:
        if engine.dialect.name != "sqlite" or inspect(engine).get_table_names():
            migrate(engine)
            return
        with contextlib.closing(engine.raw_connection()) as new, contextlib.closing(sqlite3.connect(":memory:")) as old:
            old.deserialize(tables)
            assert isinstance(new.driver_connection, sqlite3.Connection)
            try:
                old.backup(new.driver_connection)
            except sqlite3.Error as error:  # a full disk, as SQLAlchemy tells it
                raise OperationalError("copy", None, error) from error

    utils._initialize_tables = copied


def _migrate_and_leave(place: Path) -> NoReturn:
    code = 1
    try:
        from mlflow.store.db import utils
        from sqlalchemy import create_engine

        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            engine = create_engine(f"sqlite:///{place}")
            utils._initialize_tables(engine)
            engine.dispose()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _child(asked: socket.socket) -> None:
    code = 70
    try:
        _, files, _, _ = socket.recv_fds(asked, 1, 3)
        program, words, folder, environment = marshal.loads(asked.makefile("rb").read())
        for source, target in zip(files, (0, 1, 2), strict=True):
            os.dup2(source, target)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update({os.fsdecode(name): os.fsdecode(text) for name, text in environment.items()})
        sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
        sys.argv = [program, *words]
        code = {"fairgate": _fairgate, "pytest": _pytest, "code": _code}[program]()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        with contextlib.suppress(BrokenPipeError):  # nobody waits any more
            asked.sendall(f"{code}\n".encode())
        os._exit(code)


def _fairgate() -> int:
    from fairgate.interfaces.cli.main import app

    try:
        app(prog_name="fairgate")
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else 0 if leaving.code is None else 1
    return 0


def _pytest() -> int:
    sys.path.insert(0, str(Path.cwd()))  # as `-m` does
    return int(pytest.main())


def _code() -> int:
    sys.argv[0] = "-c"
    sys.path.insert(0, "")
    exec(sys.argv.pop(1), {"__name__": "__main__"})
    atexit._run_exitfuncs()
    return 0


if __name__ == "__main__":
    _serve(*sys.argv[1:])
