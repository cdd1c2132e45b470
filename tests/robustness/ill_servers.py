"""Servers that are not well: each answers every connection in its own bad way."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Answer = Callable[[socket.socket], None]
DRIP = 0.1
"""Seconds from one byte to the next: far below any timeout between bytes."""


@contextlib.contextmanager
def serving(answer: Answer, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """The address of a server that hands every connection to `answer`, in a thread of its own."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def accept() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:  # the test is over
                    return
                threading.Thread(target=converse, args=(connection,), daemon=True).start()

        def converse(connection: socket.socket) -> None:
            with contextlib.suppress(OSError), connection:
                if tls is None:
                    return answer(connection)
                with tls.wrap_socket(connection, server_side=True) as wrapped:
                    return answer(wrapped)

        threading.Thread(target=accept, daemon=True).start()
        yield f"http{'s' if tls else ''}://127.0.0.1:{listening.getsockname()[1]}"
        with contextlib.suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)


def answering(head: str, body: bytes = b"") -> Answer:
    """A whole answer of one kind."""

    def answer(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(
            f"HTTP/1.1 {head}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body
        )

    return answer


def silent(connection: socket.socket) -> None:
    """Takes the connection and never says a word."""
    while connection.recv(65536):
        pass
    time.sleep(60)


def half(connection: socket.socket) -> None:
    """Half an answer, then silence."""
    connection.recv(65536)
    connection.sendall(
        b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"experiment":'
    )
    time.sleep(60)


def dripping(connection: socket.socket) -> None:
    """An answer that never ends, byte by byte."""
    connection.recv(65536)
    connection.sendall(b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{")
    while True:
        connection.sendall(b" ")
        time.sleep(DRIP)


def dripping_headers(connection: socket.socket) -> None:
    """An answer whose headers never end."""
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    while True:
        connection.sendall(b"X")
        time.sleep(DRIP)


@contextlib.contextmanager
def dying_in_an_upload() -> Iterator[tuple[str, list[str]]]:
    """An MLflow that takes a run and is gone in the middle of its first upload: its address, and what it was asked."""
    asked: list[str] = []
    run = {"info": {"run_id": "a" * 32, "experiment_id": "1", "artifact_uri": "mlflow-artifacts:/1/a/artifacts"}}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            asked.append(self.path.partition("?")[0].rpartition("/")[2])
            experiment = {"experiment_id": "1", "name": "fairgate/jobs", "lifecycle_stage": "active"}
            self._say({"run": run} if asked[-1] == "get" else {"experiment": experiment})

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            asked.append(self.path.rpartition("/")[2])
            self._say({"run": run} if asked[-1] == "create" else {})

        def do_PUT(self) -> None:
            asked.append("upload")
            self.rfile.read(16)
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True

        def _say(self, answer: dict[str, Any]) -> None:
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}", asked
    server.shutdown()
    server.server_close()


def a_certificate(folder: Path) -> ssl.SSLContext:
    """TLS for 127.0.0.1, signed by itself."""
    from datetime import UTC, datetime, timedelta

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now, now + timedelta(days=1))
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "both.pem").write_bytes(signed + private)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "both.pem")
    return context
