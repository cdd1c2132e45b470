"""A server of models by the chat-completions protocol (vLLM, llama.cpp, TGI), as this machine has it.

`@VISION` is the server at the address in FAIRGATE_SERVER_VISION. That variable, its key, the models that may be asked
and the number of requests are the machine's: nothing of a repository names an address, so that a branch chooses
neither what receives photographs and keys, nor what answers. Redirects, proxies and `.netrc` are not followed.

The standard library's client is used, which unpacks no compressed reply, and whose connections are cut from outside:
when time is over, however slowly a server drips, and when nobody waits any more.
"""

from __future__ import annotations

import json
import os
import re
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPSConnection, IncompleteRead
from typing import Any, NoReturn
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, ValidationError

from fairgate.ground.errors import ModelError, clean, listed

PREFIX = "FAIRGATE_SERVER_"
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_ENDS = ("_KEY", "_MODELS", "_REQUESTS", "_PATIENCE")
"""Of the variables that are no address: `@vision_key` would name a key, and show it."""
_ADDRESS = re.compile(r"https?://(\[[0-9a-fA-F:.]+\]|[\w.-]+)(:[0-9]{1,5})?(/[\w./~-]*)?", re.ASCII)
_REQUESTS = 20_000
_PATIENCE = 300  # seconds
_CONNECT = 10  # seconds
_MOST_BYTES = 16_000_000  # of a reply: log-probabilities of a long prompt are large
_LATER = (408, 409, 425, 429, 500, 502, 503, 504)  # states that pass
_VOLATILE = ("created", "permission", "status", "loaded")  # parts of a report that say nothing about the model
_LONGEST = 2_000  # characters of a report
_SENT: Counter[str] = Counter()
"""Requests to each server: of this process, since one verdict opens a model several times, and a run has suites."""
_LOCK = threading.Lock()


class TokenProbability(BaseModel):
    """The natural logarithm of the probability of a token."""

    logprob: float = Field(ge=-1e9, le=0.0, allow_inf_nan=False)  # of many tokens, the sum is finite


class CompletionMessage(BaseModel):
    content: str | None = None


class CompletionChoice(BaseModel):
    message: CompletionMessage


class Completion(BaseModel):
    """What fairgate reads of a reply. `prompt_logprobs` has an entry for each token of the prompt (none for the first),
    by the token's id: vLLM gives it, other servers do not."""

    choices: list[CompletionChoice] = Field(min_length=1)
    model: str | None = None
    system_fingerprint: str | None = None
    prompt_logprobs: list[dict[str, TokenProbability] | None] | None = None

    @property
    def text(self) -> str | None:
        return self.choices[0].message.content

    @property
    def served_by(self) -> dict[str, str | None]:
        """What the reply says of who wrote it."""
        return {"model": self.model, "system_fingerprint": self.system_fingerprint}


class _ListedModel(BaseModel, extra="allow"):
    id: str


class _Models(BaseModel):
    data: list[_ListedModel]


@dataclass
class Server:
    """`address` ends in `/v1`; `models` are the ids that may be asked, `most_requests` how many requests a process
    may make, `patience` the seconds that one may take, with its repetitions. For threads."""

    name: str
    address: str
    key: str = field(repr=False)
    models: tuple[str, ...]
    most_requests: int
    patience: float
    _halted: threading.Event = field(default_factory=threading.Event, repr=False)
    _under_way: set[socket.socket] = field(default_factory=set, repr=False)

    @contextmanager
    def halted(self) -> Iterator[None]:
        """While nobody waits for replies any more: requests under way are cut, and none is made."""
        self._halted.set()
        for connected in [*self._under_way]:
            _cut(connected)
        try:
            yield
        finally:
            self._halted.clear()

    def report(self, model: str) -> dict[str, Any]:
        """What the server's list of models says of one, and what a reply of one token does. Raises ModelError."""
        listing = self._request("GET", "models", _Models)
        entry = next((each for each in listing.data if each.id == model), None)
        if entry is None:
            ids = [clean(each.id, 80) for each in listing.data]
            self._refuse(f"does not list the model '{model}' (it lists {listed(ids) if ids else 'none'})", "name one")
        hello = self.complete(model, [{"role": "user", "content": "Hello"}], max_tokens=1)
        kept = {name: value for name, value in entry.model_dump().items() if name not in _VOLATILE}
        report = {**kept, **hello.served_by}
        if len(report_in_words(report)) > _LONGEST:
            self._refuse(f"reports more than {_LONGEST:,} characters of its model", "ask who runs it")
        return report

    def complete(self, model: str, messages: list[dict[str, Any]], **options: Any) -> Completion:
        """The reply to messages, each token the likeliest. Raises ModelError."""
        body = {"model": model, "messages": messages, "temperature": 0, "seed": 0, "stream": False, **options}
        reply: Completion = self._request("POST", "chat/completions", Completion, body)
        return reply

    def _request(self, method: str, path: str, reply: type[Any], body: Mapping[str, Any] | None = None) -> Any:
        """A reply, asked for again while the server is away or busy, for as long as `patience`."""
        end, pause = time.monotonic() + self.patience, 0.25
        while True:
            self._count()
            try:
                status, content, later = self._once(method, path, body, end)
            except ssl.SSLCertVerificationError:
                self._refuse(
                    "has a certificate that this machine does not trust", "set SSL_CERT_FILE to its authority's"
                )
            except (OSError, HTTPException, ValueError) as error:
                status, content, later = 0, type(error).__name__.encode(), 0.0
            if 200 <= status < 300:
                try:
                    return reply.model_validate_json(content)
                except (ValidationError, ValueError, RecursionError):
                    self._refuse(f"answers {path} with something else than the protocol has", "ask who runs it")
            if status and status not in _LATER:
                self._refused(status, path, content)
            left = end - time.monotonic()
            wait = min(max(min(pause, max(left / 2, 0.25)), later), 60.0)  # the last try is near the end of patience
            if wait >= left or self._halted.wait(wait):
                why = f"status {status}" if status else content.decode()
                self._refuse(
                    f"does not answer within {self.patience:g} s ({why})", "start it again, and run this again"
                )
            pause *= 2

    def _once(self, method: str, path: str, body: Mapping[str, Any] | None, end: float) -> tuple[int, bytes, float]:
        """A reply's status and content, and the seconds after which it wants to be asked again. Raises OSError,
        HTTPException or ValueError where there is none in time."""
        left, url = max(0.1, end - time.monotonic()), urlsplit(f"{self.address}/{path}")
        headers = {"Content-Type": "application/json", "User-Agent": "fairgate"}
        headers |= {"Authorization": f"Bearer {self.key}"} if self.key else {}
        client = HTTPSConnection if url.scheme == "https" else HTTPConnection
        with closing(client(url.hostname or "", url.port, timeout=min(_CONNECT, left))) as connection:
            connection.connect()
            with self._cut_after(left, connection.sock):
                connection.request(method, url.path, None if body is None else json.dumps(body), headers)
                with connection.getresponse() as response:
                    content = response.read(_MOST_BYTES + 1)
                    if len(content) > _MOST_BYTES:
                        self._refuse(f"sends more than {_MOST_BYTES:,} bytes", "ask who runs it")
                    if response.length or time.monotonic() > end:
                        raise IncompleteRead(content)
                    after = response.headers.get("Retry-After", "")
        return response.status, content, float(after[:9]) if after.isdecimal() else 0.0

    @contextmanager
    def _cut_after(self, seconds: float, connected: socket.socket) -> Iterator[None]:
        """Ends a connection when time is over, or the server is halted: a time limit of a socket is that of a byte."""
        alarm = threading.Timer(seconds, _cut, [connected])
        alarm.daemon = True
        connected.settimeout(None)
        self._under_way.add(connected)
        try:
            if self._halted.is_set():
                raise InterruptedError
            alarm.start()
            yield
        finally:
            alarm.cancel()
            self._under_way.discard(connected)

    def _count(self) -> None:
        with _LOCK:
            if _SENT[self.name] >= self.most_requests:
                self._refuse(
                    f"was sent {_SENT[self.name]:,} requests, the most that this machine allows",
                    f"ask fewer questions, or raise {_variable(self.name)}_REQUESTS where fairgate runs",
                )
            _SENT[self.name] += 1

    def _refused(self, status: int, path: str, content: bytes) -> NoReturn:
        if 300 <= status < 400:
            self._refuse("redirects, which is not followed", "set the address that it redirects to")
        if status in (401, 403):
            self._refuse(f"refuses the key (status {status})", f"set {_variable(self.name)}_KEY where fairgate runs")
        words = _words_of(content)
        if self.key and self.key in words:
            words = "in words that hold the key"
        self._refuse(f"refuses {path} (status {status}: {words})", "ask who runs it")

    def _refuse(self, what: str, remedy: str) -> NoReturn:
        raise ModelError(f"the server '{self.name}' {what}.", where=f"openai:@{self.name}", remedy=remedy)


def server_of(name: str, model: str, where: str) -> Server:
    """The server of a name, for one of its models. Raises ModelError for one that this machine does not set, or whose
    model it does not allow."""
    if not _NAME.fullmatch(name) or name.upper().endswith(_ENDS):
        raise ModelError(
            f"'@{name}' names no server: small letters, digits and `_` do.",
            where=where,
            remedy="write openai:@NAME?model=ID, with FAIRGATE_SERVER_NAME set to its address",
        )
    variable = _variable(name)
    address, key = (os.environ.get(f"{variable}{of}", "").strip() for of in ("", "_KEY"))
    if not _ADDRESS.fullmatch(address):
        known = [f"@{each}" for each in _servers()]
        has = f"it has {listed(known)}" if known else "it has none"
        problem = "has no address of a server" if address else f"is not set on this machine ({has})"
        raise ModelError(
            f"the server '{name}' {problem}.",
            where=where,
            remedy=f"set {variable} where fairgate runs, such as {variable}=http://127.0.0.1:8000/v1",
        )
    if not (key.isascii() and key.isprintable()):
        raise ModelError(f"{variable}_KEY is no key.", where=where, remedy="set one of printable characters")
    models = tuple(filter(None, (each.strip() for each in os.environ.get(f"{variable}_MODELS", "").split(","))))
    if model not in models:
        allowed = listed(models) if models else "none"
        raise ModelError(
            f"the model '{model}' of the server '{name}' may not be asked on this machine (allowed: {allowed}).",
            where=where,
            remedy=f"set {variable}_MODELS where fairgate runs, to ids with commas between them",
        )
    most, patience = (
        _number(f"{variable}_{of}", default) for of, default in (("REQUESTS", _REQUESTS), ("PATIENCE", _PATIENCE))
    )
    return Server(name, address.rstrip("/"), key, models, most, patience)


def report_in_words(report: Mapping[str, Any]) -> str:
    """A server's report of a model as text, its parts by their names.

    >>> report_in_words({"id": "a", "meta": {"size": 7}, "root": None})
    'id a, meta.size 7'
    """
    return clean(", ".join(f"{name} {value}" for name, value in _flat(report)))


def _flat(value: Any, name: str = "") -> list[tuple[str, Any]]:
    if isinstance(value, Mapping):
        return [pair for key in sorted(value) for pair in _flat(value[key], f"{name}.{key}" if name else str(key))]
    if value is None:
        return []
    return [(name, value if isinstance(value, str | int | float) else json.dumps(value, sort_keys=True))]


def _variable(name: str) -> str:
    return f"{PREFIX}{name.upper()}"


def _servers() -> list[str]:
    names = (key.removeprefix(PREFIX) for key in os.environ if key.startswith(PREFIX))
    return sorted(name.lower() for name in names if not name.endswith(_ENDS))


def _number(variable: str, default: int) -> int:
    text = os.environ.get(variable, str(default))
    if not text.isdecimal() or not 1 <= int(text[:12]) <= 10**9:
        raise ModelError(
            f"{variable} is '{text[:40]}'.", where=variable, remedy="set a whole number from 1, or leave it out"
        )
    return int(text)


def _cut(connected: socket.socket) -> None:
    with suppress(OSError):  # it is gone already
        socket.socket.shutdown(connected, socket.SHUT_RDWR)  # of TLS as well: without its farewell


def _words_of(content: bytes) -> str:
    """What an error's reply says, shortened."""
    text = content[:4_000].decode("utf-8", "replace")
    try:
        body = json.loads(text)
        error = body.get("error", body)
        text = str(error.get("message", error) if isinstance(error, dict) else error)
    except (ValueError, AttributeError, RecursionError):
        pass
    return clean(text, 200) or "no reason given"
