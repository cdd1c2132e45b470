"""A quiet, impatient conversation with MLflow that leaves nothing behind in the process."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from fairgate.errors import TrackingError

if TYPE_CHECKING:
    from mlflow import MlflowClient

_DURING_THE_CALL = {
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",  # seconds; MLflow's own is 120, seven times over
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",  # a retry would obey `Retry-After: 3600`; the queue is our retry
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
}
"""Set for the length of a call, except where the person already said otherwise."""

_REMEDY = "check the address and the server, then send what is waiting with `fairgate push`"
READ_REMEDY = "check the address (--fairness-mlflow, --mlflow) and the server"


@contextlib.contextmanager
def session(uri: str, problem: str = "MLflow did not take the run", remedy: str = _REMEDY) -> Iterator[MlflowClient]:
    """An `MlflowClient` for `uri`, its registry included. Whatever keeps MLflow from answering leaves as a
    TrackingError that starts with `problem`."""
    if not uri:  # MLflow would take its process-wide address instead
        raise TrackingError("the MLflow address is empty.", remedy="give an address, or `off` for none")
    with _environment(), warnings.catch_warnings():
        # Only MLflow and what it imports run in here, and their use of deprecated SQLAlchemy, pydantic and
        # datetime calls (`noload` is one) must not fail a test run that turns warnings into errors.
        for category in (DeprecationWarning, PendingDeprecationWarning, FutureWarning):
            warnings.simplefilter("ignore", category)
        try:
            from google.protobuf.json_format import ParseError
            from mlflow import MlflowClient
            from mlflow.exceptions import MlflowException
            from sqlalchemy.exc import SQLAlchemyError
        except ImportError as error:
            raise TrackingError(f"MLflow cannot be imported: {error}", remedy="pip install mlflow") from error
        with _quiet():
            try:
                _answers(uri)
                yield MlflowClient(uri, registry_uri=uri)
            # OSError: requests' errors, refused sockets, full disks. ValueError, ParseError: answers that are not
            # MLflow's, such as a proxy's login page. ImportError: a database whose driver is not installed.
            except (MlflowException, SQLAlchemyError, OSError, ValueError, ParseError, ImportError) as error:
                raise TrackingError(f"{problem}: {_first_line(error)}", where=redact(uri), remedy=remedy) from error


def redact(text: str) -> str:
    """A text without the user and password of the addresses in it.

    >>> redact("https://me:secret@mlflow.example/api")
    'https://***@mlflow.example/api'
    """
    return re.sub(r"(?<=://)[^/\s]*@", "***@", text)


def sqlite_path(uri: str) -> Path | None:
    """The file behind a `sqlite:///PATH` address, absolute; None for every other kind of store."""
    scheme, found, rest = uri.partition(":///")
    if not found or scheme.partition("+")[0] != "sqlite" or not rest:
        return None
    return Path(unquote(rest.partition("?")[0])).absolute()


def _answers(uri: str) -> None:
    """Ask a database once whether it is there: MLflow itself would ask ten times, for minutes."""
    from mlflow.store.db.db_types import DATABASE_ENGINES
    from sqlalchemy import create_engine, inspect

    dialect = uri.partition(":")[0].partition("+")[0]
    if dialect not in DATABASE_ENGINES:
        return
    if path := sqlite_path(uri):
        path.parent.mkdir(parents=True, exist_ok=True)
    patience: dict[str, Any] = {} if dialect in {"sqlite", "mssql"} else {"connect_timeout": 10}
    engine = create_engine(uri, connect_args=patience)
    try:
        inspect(engine).has_table("experiments")
    finally:
        engine.dispose()


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in redact(str(error)).splitlines() if line.strip()]
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
    """Hold back the chatter of table migrations; warnings and errors still speak."""
    loggers = [logging.getLogger(name) for name in ("mlflow", "alembic")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
