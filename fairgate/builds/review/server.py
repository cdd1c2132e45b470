"""The page's server: this machine alone, one secret address, no cookie, nothing fetched from elsewhere."""

from __future__ import annotations

import base64
import json
import secrets
import sys
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from fairgate.builds.review.session import Session
from fairgate.ground.errors import FairgateError, SettingsError
from fairgate.reports import Page

# The standard library's server: with starlette and uvicorn every refusal below would still be written by hand.
HOST: Final = "127.0.0.1"
_MOST_BYTES: Final = 64 << 10
_SECONDS: Final = 30.0
"""A connection that says nothing for so long is closed."""


class ReviewServer:
    """Serves one session at `url` until `stop`, or until the rater presses "Stop here". A context manager."""

    def __init__(self, session: Session, page: Page, port: int = 0) -> None:
        """Binds 127.0.0.1:`port` (0: a free one). Raises SettingsError where the port is taken."""
        self.session = session
        self.page = page
        self.token = secrets.token_urlsafe(24)
        try:
            self._http = _Http((HOST, port), _Handler)
        except (OSError, OverflowError) as error:
            raise SettingsError(
                f"port {port} of this machine cannot be taken ({error}).", where="--port", remedy="leave --port out"
            ) from error
        self._http.review = self
        self.port = int(self._http.server_address[1])

    @property
    def url(self) -> str:
        """The only address that answers. It holds a secret: who has it can mark in the rater's name."""
        return f"http://{HOST}:{self.port}/{self.token}/"

    def serve(self) -> None:
        """Answer until stopped."""
        self._http.serve_forever(poll_interval=0.1)

    def stop(self) -> None:
        """End `serve`, from another thread."""
        self._http.shutdown()

    def __enter__(self) -> ReviewServer:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.server_close()


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = sys.platform != "win32"  # elsewhere: at once after a stop, and never beside another process
    review: ReviewServer

    def handle_error(self, request: object, client_address: object) -> None:
        """A browser that goes away in the middle is no news."""


class _Refused(Exception):
    def __init__(self, status: HTTPStatus, words: str) -> None:
        super().__init__(words)
        self.status, self.words = status, words


class _Handler(BaseHTTPRequestHandler):
    """One request. Everything is refused that does not come from this page, for its own address."""

    server: _Http
    timeout = _SECONDS
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "fairgate", ""

    def do_GET(self) -> None:
        """The page, its data, a picture."""
        self._answer(self._get)

    def do_POST(self) -> None:
        """A mark, an undo, the end."""
        self._answer(self._post)

    def log_message(self, format: str, *args: object) -> None:
        """Addresses hold the secret: nothing is logged."""

    def _answer(self, make: Callable[[list[str]], tuple[str, bytes]]) -> None:
        try:
            kind, body = make(self._own_path())
            status = HTTPStatus.OK
        except _Refused as refused:
            status, kind, body = refused.status, *_json({"error": refused.words})
            self.close_connection = True  # what was sent may not have been read
        except FairgateError as error:
            parts = {"error": error.problem, "where": error.where, "remedy": error.remedy}
            status, kind, body = HTTPStatus.CONFLICT, *_json(parts)
        self.send_response(status)
        for name, value in self.server.review.page.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _own_path(self) -> list[str]:
        """The path after the secret. Requests for another host, origin or address are refused."""
        review = self.server.review
        own = {f"{name}:{review.port}" for name in (HOST, "localhost")}
        if self.headers.get_all("Host") is None or any(host not in own for host in self.headers.get_all("Host", [])):
            raise _Refused(HTTPStatus.FORBIDDEN, "this page answers under its own address only")
        origin = self.headers.get("Origin")
        if origin is not None and origin.removeprefix("http://") != self.headers["Host"]:
            raise _Refused(HTTPStatus.FORBIDDEN, "another page may not ask here")
        _, _, path = self.path.partition("/")
        token, _, rest = path.partition("/")
        followed = self.headers.get("Sec-Fetch-Mode") == "navigate" and not rest  # a link in a terminal that is a page
        if self.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin") and not followed:
            raise _Refused(HTTPStatus.FORBIDDEN, "another page may not ask here")
        if not secrets.compare_digest(token.encode(), review.token.encode()):
            raise _Refused(HTTPStatus.FORBIDDEN, "the address is not whole: copy it from the terminal again")
        return rest.split("/")

    def _get(self, path: list[str]) -> tuple[str, bytes]:
        session = self.server.review.session
        match path:
            case [""]:
                return "text/html; charset=utf-8", self.server.review.page.html
            case ["state"]:
                return _json(session.overview())
            case ["icon"]:
                return "image/png", _ICON
            case ["picture", number, place] if number.isdecimal() and place.isdecimal():
                return "image/png", session.picture(int(number[:9]), int(place[:9]))
        raise _Refused(HTTPStatus.NOT_FOUND, "there is nothing here")

    def _post(self, path: list[str]) -> tuple[str, bytes]:
        given = self._body()
        session = self.server.review.session
        match path, given:
            case ["mark"], {"item": int(number), "what": str(what), "answer": answer}:
                return _json(session.mark(number, what, answer))
            case ["undo"], {}:
                return _json(session.undo())
            case ["stop"], {}:
                threading.Thread(target=self.server.review.stop, daemon=True).start()
                return _json({})
        raise _Refused(HTTPStatus.NOT_FOUND, "there is nothing here")

    def _body(self) -> dict[str, Any]:
        length = self.headers.get("Content-Length", "")
        if self.headers.get("Origin") is None or self.headers.get_content_type() != "application/json":
            raise _Refused(HTTPStatus.FORBIDDEN, "only this page may mark")
        if not length.isdecimal() or len(length) > 9 or int(length) > _MOST_BYTES:
            raise _Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "that is too long for an answer")
        try:
            given = json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError) as error:
            raise _Refused(HTTPStatus.BAD_REQUEST, "that is no answer") from error
        if not isinstance(given, dict):
            raise _Refused(HTTPStatus.BAD_REQUEST, "that is no answer")
        return given


# A browser asks for an icon, and would ask outside of the secret address: one pixel, transparent.
_ICON = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)


def _json(data: object) -> tuple[str, bytes]:
    return "application/json", json.dumps(data).encode()
