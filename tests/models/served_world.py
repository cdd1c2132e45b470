"""A small server with the chat-completions protocol, which sees the colour of a picture, and can misbehave."""

from __future__ import annotations

import base64
import io
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from PIL import Image

MODEL = "acme/sees-7b"
KEY = "secret-of-the-machine"
Colour = tuple[int, int, int]


@dataclass
class World:
    """What the server does. `says(colour, question)` answers; `label(colour, text)` is the log-probability of each
    character of an assistant's text, by vLLM's `prompt_logprobs`; `fault(number)` may answer the request instead."""

    says: Callable[[Colour, str], str | None] = lambda _colour, _question: "doctor"
    label: Callable[[Colour, str], float] | None = None
    fault: Callable[[int], tuple[int, bytes, dict[str, str]] | None] = lambda _number: None
    listed: dict[str, Any] = field(default_factory=lambda: {"id": MODEL, "owned_by": "acme", "created": 1})
    system: str | None = "build-1"
    slow: float = 0.0
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    at_once: int = 0
    _now: int = 0
    _lock: Any = field(default_factory=threading.Lock)

    def asked(self) -> list[dict[str, Any]]:
        """The requests about pictures."""
        return [body for body in self.bodies if isinstance(body["messages"][0]["content"], list)]

    def reply(self, body: dict[str, Any]) -> dict[str, Any]:
        content = body["messages"][0]["content"]
        if isinstance(content, str):
            return self._message("Hi")
        colour = colour_of(next(part["image_url"]["url"] for part in content if part["type"] == "image_url"))
        text = "".join(part["text"] for part in content if part["type"] == "text")
        if len(body["messages"]) == 1:
            return self._message(self.says(colour, text))
        if self.label is None:
            return self._message("ignored")
        end = body["messages"][1]["content"]
        tokens = [*(f"p{number}" for number in range(300)), *end]  # a character is a token
        each = self.label(colour, end)
        logprobs = [None, *({token: {"logprob": each if at >= 300 else -1.5}} for at, token in enumerate(tokens) if at)]
        return {**self._message(""), "prompt_logprobs": logprobs}

    def _message(self, text: str | None) -> dict[str, Any]:
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        return {"id": "x", "model": MODEL, "system_fingerprint": self.system, "choices": [choice]}

    @contextmanager
    def counted(self, body: dict[str, Any], headers: dict[str, str]) -> Iterator[int]:
        """How many requests about pictures there were, with this one."""
        with self._lock:
            self.bodies.append(body)
            self.headers.append(headers)
            number = len(self.asked())
            self._now += 1
            self.at_once = max(self.at_once, self._now)
        try:
            yield number
        finally:
            with self._lock:
                self._now -= 1


def colour_of(url: str) -> Colour:
    image = Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))).convert("RGB")
    return image.getpixel((0, 0))


def handler(world: World) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.answer(200, json.dumps({"object": "list", "data": [world.listed]}).encode(), {})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with world.counted(body, dict(self.headers)) as number:
                time.sleep(world.slow)
                answer = world.fault(number) or (200, json.dumps(world.reply(body)).encode(), {})
            self.answer(*answer)  # who has it may ask again at once

        def answer(self, status: int, content: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in {"Content-Length": str(len(content)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            """Quiet."""

    return Handler


class _Server(ThreadingHTTPServer):
    request_queue_size = 64

    def handle_error(self, *_: Any) -> None:
        """A client that is gone is expected; a traceback, printed by a thread, parses code while pytest may as well."""


@contextmanager
def serving(world: World, port: int = 0) -> Iterator[int]:
    """Runs a server; its port."""
    server = _Server(("127.0.0.1", port), handler(world))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def settings(port: int, **more: str) -> dict[str, str]:
    """What the machine sets of it."""
    named = {"": f"http://127.0.0.1:{port}/v1", "_KEY": KEY, "_MODELS": f"other, {MODEL}", "_PATIENCE": "20"}
    return {f"FAIRGATE_SERVER_VISION{name}": value for name, value in {**named, **more}.items()}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A server that this machine names, and that was sent nothing yet."""
    made = World()
    monkeypatch.setattr("fairgate.models.served.server._SENT", Counter())
    with serving(made) as port:
        for name, value in settings(port).items():
            monkeypatch.setenv(name, value)
        yield made
