"""A time limit on all HTTP requests of a session, whatever the server does."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from fairgate.errors import TrackingError

if TYPE_CHECKING:
    from urllib3.connection import HTTPConnection

VARIABLE = "FAIRGATE_MLFLOW_TIMEOUT"
"""Seconds that logging a run to MLflow, or reading one from it, may take in all."""
DEFAULT = 60.0


def patience() -> float:
    """Seconds for one conversation. TrackingError where the environment says something else than a number above 0."""
    text = os.environ.get(VARIABLE) or str(DEFAULT)
    with contextlib.suppress(ValueError):
        if (seconds := float(text)) > 0:
            return seconds
    raise TrackingError(
        f"{VARIABLE} is '{text}', which is no number of seconds.", where="environment", remedy=f"set {VARIABLE}=60"
    )


class Deadline:
    """Cuts the connections that were opened under it, once they have had their time, and refuses new ones.

    A timeout of `requests` counts from one byte to the next: a server that sends a byte now and then would hold us for
    ever, and so would a slow answer to each of many requests. The connections are watched in this process, and not left
    to another one that can be killed: reading a baseline needs the limit as well, and a second process would import
    MLflow again, two seconds of every gate run.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._over = threading.Event()
        self._open: list[socket.socket] = []

    @property
    def over(self) -> bool:
        """Has the time run out?"""
        return self._over.is_set()

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
        self._over.set()
        for each in [*self._open]:
            with contextlib.suppress(OSError):  # closed already
                each.shutdown(socket.SHUT_RDWR)
