"""A server of this machine: started and waited for, killed, started again on its port, and ended with the test."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from ill_servers import serving

PATIENCE = 60  # seconds until a server answers, on a busy machine
_CHUNK = 16384


def free_ports(count: int) -> list[int]:
    """Ports of this machine on which nobody listens."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


@dataclass
class LocalServer:
    """A server's command, the port on which it listens, and where its output goes; `answers` is true once it serves."""

    command: Sequence[str]
    port: int
    log: Path
    answers: Callable[[], bool]
    environment: Mapping[str, str] = field(default_factory=dict)
    user: str | None = None
    _process: subprocess.Popen[bytes] | None = None

    @property
    def runs(self) -> bool:
        """Whether it was started, and not killed since."""
        return self._process is not None

    def start(self) -> None:
        """Start it and wait until it serves. Raises RuntimeError with its output if it does not."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command,
                cwd=self.log.parent,
                env={**os.environ, **self.environment},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # so that its children are killed with it
                user=self.user,
            )
        started = time.monotonic()
        while time.monotonic() - started < PATIENCE and self._process.poll() is None:
            with suppress(OSError):
                if self.answers():
                    return
            time.sleep(0.02)
        self.kill()
        raise RuntimeError(f"{self.command[0]} does not serve:\n{self.log.read_text(errors='replace')[-3000:]}")

    def pause(self) -> None:
        """Let it take connections and never answer."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Go on after a pause."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGCONT)

    def kill(self) -> None:
        """End it at once with all its processes, as a machine that loses its power."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(30)
            self._process = None


class Relay:
    """A port that leads to a server, and can kill it in the middle of a conversation. `sent` counts bytes to it."""

    def __init__(self, server: LocalServer) -> None:
        self.server, self.port, self.killed, self.sent = server, 0, threading.Event(), 0
        self._left: dict[bool, int] = {}
        self._kills = 0
        self._lock = threading.Lock()

    def kill_after(self, size: int, *, sent: bool) -> None:
        """Kill the server once as many bytes were sent to it from now on, or came back from it."""
        self.killed.clear()
        self._left = {sent: size}

    @contextmanager
    def serving(self) -> Iterator[Relay]:
        """Hand on what arrives at the port."""
        with serving(self._converse) as address:
            self.port = int(address.rpartition(":")[2])
            yield self

    def _converse(self, client: socket.socket) -> None:
        with socket.create_connection(("127.0.0.1", self.server.port)) as behind:
            back = threading.Thread(target=self._pump, args=(behind, client, False), daemon=True)
            back.start()
            self._pump(client, behind, True)
            back.join()

    def _pump(self, source: socket.socket, target: socket.socket, sent: bool) -> None:
        kills = self._kills
        with suppress(OSError):
            while chunk := source.recv(_CHUNK):
                self._count(len(chunk), sent)
                if self._kills != kills:  # what the server wrote before may wait in the kernel, and is lost with it
                    break
                target.sendall(chunk)
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _count(self, size: int, sent: bool) -> None:
        with self._lock:
            self.sent += size * sent
            if sent in self._left:
                self._left[sent] -= size
                if self._left[sent] <= 0:
                    self._left.clear()
                    self._kills += 1
                    self.server.kill()
                    self.killed.set()
