"""A client for MLflow with a time limit, without log output, that leaves no global state behind.

A store inside of the checkout belongs to the branch: nothing that decides is read from it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import socket
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from fairgate.ground.atomic import draft_of, remove, sweep
from fairgate.ground.ci import in_ci, patience
from fairgate.ground.errors import FairgateError, TrackingError
from fairgate.ground.git import run_git
from fairgate.models.checkpoints import repositories_of

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from urllib3.connection import HTTPConnection

TIMEOUT = "FAIRGATE_MLFLOW_TIMEOUT"
"""Seconds that logging a run to MLflow, or reading one from it, may take in all; 60 where it is not set."""
_DURING_THE_CALL = {
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",  # seconds; MLflow's own is 120, seven times over
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",  # a retry would obey `Retry-After: 3600`; the queue is our retry
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
}
"""Set for the length of a call, except where the person already said otherwise."""

_PUSH = ", then send what is waiting with `fairgate push`"
_REMEDY = f"check the address and the server{_PUSH}"
READ_REMEDY = "check the address (--mlflow; pytest: --fairness-mlflow) and the server"


@contextlib.contextmanager
def session(
    uri: str, problem: str = "MLflow did not take the run", remedy: str = _REMEDY, seconds: float | None = None
) -> Iterator[MlflowClient]:
    """An `MlflowClient` for `uri`, its registry included. Whatever keeps MLflow from answering leaves as a
    TrackingError that starts with `problem`; so does a server that is not done after `seconds` in all (None: as many
    as FAIRGATE_MLFLOW_TIMEOUT says, or 60)."""
    if not uri:  # MLflow would take its process-wide address instead
        raise TrackingError("the MLflow address is empty.", remedy="give an address, or `off` for none")
    if uri == "off":  # MLflow would take it for a folder
        where = "--mlflow, or FAIRGATE_MLFLOW"
        raise TrackingError("MLflow is off.", where=where, remedy="name a store, such as sqlite:///fairgate.db")
    deadline = _Deadline(patience(os.environ, TIMEOUT, 60, TrackingError) if seconds is None else seconds)
    with _environment(), warnings.catch_warnings():
        # Only MLflow and what it imports run in here, and their use of deprecated SQLAlchemy, pydantic and
        # datetime calls (`noload` is one) must not fail a test run that turns warnings into errors.
        for category in (DeprecationWarning, PendingDeprecationWarning, FutureWarning):
            warnings.simplefilter("ignore", category)
        try:
            from mlflow import MlflowClient
        except Exception as error:  # of any type: it may not fit another package
            raise TrackingError(f"MLflow cannot be imported: {error}", remedy="pip install mlflow") from error
        with _quiet():
            try:
                with deadline.enforced():
                    _require_database(uri)
                    yield MlflowClient(uri, registry_uri=uri)
            except FairgateError:
                raise
            # Of any type: MLflow's and SQLAlchemy's own, refused sockets, full disks, a proxy's login page, a database
            # whose driver is not installed, defects of MLflow. What cannot be logged decides nothing.
            except Exception as error:
                raise TrackingError(
                    f"{problem}: {_reason(error, deadline)}",
                    where=redact(uri),
                    remedy=_remedy(uri, error, deadline, remedy),
                ) from error


class _Deadline:
    """Cuts the connections that were opened under it, once they have had their time, and refuses new ones.

    A timeout of `requests` counts from one byte to the next: a server that sends a byte now and then would hold us for
    ever, and so would a slow answer to each of many requests. The connections are watched in this process, and not left
    to another one that can be killed: reading a baseline needs the limit as well, and a second process would import
    MLflow again, two seconds of every gate run.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.over = False
        self._open: list[socket.socket] = []

    @contextlib.contextmanager
    def enforced(self) -> Iterator[None]:
        """Apply the deadline to every connection that urllib3 opens in this block, in whichever thread."""
        from urllib3.connection import HTTPConnection, HTTPSConnection

        kinds: tuple[Any, ...] = (HTTPConnection, HTTPSConnection)
        originals = [kind.connect for kind in kinds]
        timer = threading.Timer(self.seconds, self._cut)
        timer.daemon = True
        for kind, original in zip(kinds, originals, strict=True):
            kind.connect = self._watched(original)
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            for kind, original in zip(kinds, originals, strict=True):
                kind.connect = original
            self._open.clear()

    def _watched(self, original: Callable[[HTTPConnection], None]) -> Callable[[HTTPConnection], None]:
        def connect(connection: HTTPConnection) -> None:
            self._require_time()
            original(connection)
            if connection.sock is not None:
                self._open.append(connection.sock)
            self._require_time()

        return connect

    def _require_time(self) -> None:
        if self.over:
            raise TimeoutError(f"not done within {self.seconds:g} s")

    def _cut(self) -> None:
        self.over = True
        for each in [*self._open]:
            with contextlib.suppress(OSError):  # closed already
                each.shutdown(socket.SHUT_RDWR)


def redact(text: str) -> str:
    """A text without the user and password of the addresses in it.

    >>> redact("https://me:secret@mlflow.example/api")
    'https://***@mlflow.example/api'
    """
    return re.sub(r"(?<=://)[^/\s]*@", "***@", text)


def sqlite_path(uri: str) -> Path | None:
    """The file behind a `sqlite:///PATH` address, absolute; None for every other kind of store."""
    scheme, separator, rest = uri.partition(":///")
    if not separator or scheme.partition("+")[0] != "sqlite" or not rest:
        return None
    return Path(unquote(rest.partition("?")[0])).absolute()


def _require_database(uri: str) -> None:
    """Connect to a database once, or raise: MLflow itself would try ten times, for minutes."""
    from mlflow.store.db.db_types import DATABASE_ENGINES
    from sqlalchemy import create_engine, inspect

    dialect = uri.partition(":")[0].partition("+")[0]
    if dialect not in DATABASE_ENGINES:
        return
    if path := sqlite_path(uri):
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            _make_database(uri, path)
    connecting: dict[str, Any] = {} if dialect in {"sqlite", "mssql"} else {"connect_timeout": 10}
    engine = create_engine(uri, connect_args=connecting)
    try:
        inspect(engine).has_table("experiments")
    finally:
        engine.dispose()


def _make_database(uri: str, path: Path) -> None:
    """Make MLflow's tables in a draft, which appears whole.

    MLflow makes them in place by dozens of migrations, and one that is killed halfway leaves a database that it can
    neither use nor mend.
    """
    from mlflow import MlflowClient

    sweep(path.parent)
    address, mark, options = uri.partition("?")
    folder, _, name = address.rpartition("/")
    drafted = f"{folder}/{draft_of(Path(name)).name}{mark}{options}"
    draft = sqlite_path(drafted)
    assert draft is not None
    try:
        draft.touch()  # where that is refused, MLflow would try for minutes
        MlflowClient(drafted).search_experiments(max_results=1)
        try:
            path.hardlink_to(draft)
        except FileExistsError:
            pass  # a neighbouring job was faster, and may have logged by now
        except OSError:  # a file system without hard links
            if not path.exists():
                draft.replace(path)
    finally:
        remove(draft)


def unanswered(error: BaseException | None) -> str | None:
    """Why the server did not answer at all, so that another request is no use; None where it did."""
    requests = sys.modules.get("requests")  # whoever talked over HTTP has it
    while requests and error is not None:
        if isinstance(error, requests.ConnectionError | requests.Timeout):
            inner = getattr(error.args[0], "reason", None) if error.args else None
            return _first_line(inner or error).rpartition("): ")[2]  # without the pool, host and port
        error = error.__cause__ or error.__context__
    return None


def _reason(error: BaseException, deadline: _Deadline) -> str:
    if deadline.over:
        return f"it was not done after {deadline.seconds:g} seconds"
    silence = unanswered(error)
    if isinstance(error, LookupError | TypeError | AttributeError | RuntimeError):  # a defect, whose words name no type
        return f"{type(error).__name__}: {_first_line(error)}"
    return _first_line(error) if silence is None else f"it did not answer ({silence})"


def _remedy(uri: str, error: BaseException, deadline: _Deadline, usual: str) -> str:
    """What to do about it: the usual, or what fits this error."""
    if deadline.over:
        special = f"check the server, or give it longer with {TIMEOUT}=SECONDS"
    elif getattr(error, "error_code", None) in {"PERMISSION_DENIED", "UNAUTHENTICATED"}:
        special = "set MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and _PASSWORD, to one who may write there"
    elif path := sqlite_path(uri):
        special = f"see that {path.parent} can be written and has room, and that {path.name} is MLflow's"
    else:
        return usual
    return special + (_PUSH if usual == _REMEDY else "")


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in redact(str(error)).splitlines()]
    lines = [line for line in lines if line and not line.startswith("(raised as a result of")]  # SQLAlchemy's preface
    return lines[0][:300] if lines else type(error).__name__


@contextlib.contextmanager
def _environment() -> Iterator[None]:
    added = {name: value for name, value in _DURING_THE_CALL.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Hold back the chatter of table migrations, and the tracebacks that MLflow prints of errors it also raises."""
    loggers = [logging.getLogger(name) for name in ("mlflow", "alembic")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


_BESIDE_SQLITE = ("-journal", "-wal", "-shm")
"""Ends of the files from which SQLite rewrites a store when it is next opened."""


def local_place(uri: str) -> Path | None:
    """The file or folder of this disk that an address of a store or of artifacts names; None for a server's.

    >>> local_place("file:///srv/mlruns"), local_place("https://mlflow.example"), local_place("databricks")
    (PosixPath('/srv/mlruns'), None, None)
    """
    if (database := sqlite_path(uri)) is not None:
        return database
    scheme, colon, _ = uri.partition(":")
    if uri in ("databricks", "databricks-uc") or (colon and scheme != "file"):
        return None
    return Path(unquote(urlsplit(uri).path)).absolute()


def require_not_the_branchs(uri: str, root: Path | None = None) -> None:
    """Raises TrackingError for a store, or files of one, that git tracks; in CI, for any in the repository of `root`.

    A branch would decide what such a store contains, and to which address its runs' files are sent.
    """
    place = local_place(uri)
    if place is None:
        return
    for path in {place, place.resolve()}:
        inside = root is not None and in_ci(os.environ) and any(map(path.is_relative_to, repositories_of(root)))
        if inside or any(_in_git(top, path) for top in repositories_of(path.parent)):
            raise TrackingError(
                "this store is inside of the repository, where a branch decides what it contains.",
                where=redact(uri),
                remedy="name a server, or a store that is elsewhere with its files "
                "(--fairness-mlflow sqlite:////srv/fairgate.db)",
            )


def _in_git(top: Path, path: Path) -> bool:
    place = path.parent.resolve() / path.name
    inside = place.relative_to(top).as_posix()
    names = [f"{inside}{end}" for end in ("", *_BESIDE_SQLITE)]
    done = run_git(top, "ls-tree", "-r", "--name-only", "HEAD", "--", *names)
    return done.returncode == 0 and bool(done.stdout.strip())
