"""Downloads: repositories of the hub at a full commit, single files over HTTP, and lists of strangers' addresses, whose
pictures are verified, and counted by what came of each."""

from __future__ import annotations

import io
import ipaddress
import re
import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import IO, Final
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
)

from fairgate.data import inside
from fairgate.data.published.contract import HubFiles, WebFiles
from fairgate.data.published.source_files import ENDINGS
from fairgate.ground.atomic import atomic_write
from fairgate.ground.errors import DatasetError
from fairgate.ground.hashing import sha256_file
from fairgate.ground.pixels import UnreadableImage, decode
from fairgate.ground.text import csv_text
from fairgate.version import __version__

PATIENCE = 60.0
"""Seconds without a byte after which a server is given up."""
_PIECE = 1 << 16
_AZURE = ipaddress.IPv4Address("168.63.129.16")
"""Azure's own service inside of every machine there; the address is registered as a public one."""
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_UNICAST = ipaddress.IPv6Network("2000::/3")
"""All that is assigned of IPv6's public internet (RFC 4291): no multicast, no site-local."""
COMMIT = re.compile(r"[0-9a-f]{40}")
Progress = Callable[[int, int], None]


class Refused(ValueError):
    """Something that is not fetched, or that came and is not kept; the message says why."""


def newest_commit(source: HubFiles) -> str:
    """The full commit that the repository's main branch is at now. Raises DatasetError where the hub does not say."""
    from huggingface_hub import HfApi

    with _hub(source):
        commit = HfApi().dataset_info(source.repository).sha or ""
        if not COMMIT.fullmatch(commit):
            raise Refused(f"'{commit}' is no full commit")
    return commit


def fetch_hub(source: HubFiles, into: Path, commit: str) -> None:
    """Fetch a repository's files as of a full commit into a folder, going on where an earlier try was cut off.

    Large files are held against the SHA-256 that the hub names for that commit. Raises DatasetError where the hub does
    not give them, or gives others.
    """
    from fnmatch import fnmatch

    from huggingface_hub import HfApi, snapshot_download

    with _hub(source):
        if not COMMIT.fullmatch(commit):
            raise Refused(f"'{commit}' is no full commit, 40 digits from 0 to f")
        patterns = list(source.patterns)
        snapshot_download(
            source.repository, repo_type="dataset", revision=commit, allow_patterns=patterns, local_dir=into
        )
        listed = HfApi().list_repo_tree(source.repository, recursive=True, revision=commit, repo_type="dataset")
        for entry in listed:
            large = getattr(entry, "lfs", None)
            if large is None or not any(fnmatch(entry.path, pattern) for pattern in patterns):
                continue
            path = into / inside(entry.path, source.address)
            if sha256_file(path) != large.sha256:
                path.unlink()
                raise Refused(f"'{entry.path}' is not what the hub says that it is, and was removed")


@contextmanager
def _hub(source: HubFiles) -> Iterator[None]:
    """Raises DatasetError where the block does not get what it wants of the hub."""
    from huggingface_hub.errors import GatedRepoError, HfHubHTTPError

    # the base of what the hub's HTTP client raises (requests, httpx or a fork of it, by version), lost connections too
    of_client: type[Exception] = next(base for base in HfHubHTTPError.__mro__ if base.__name__ == "HTTPError")
    try:
        yield
    except GatedRepoError as error:
        raise DatasetError(
            "the dataset is behind a form, which this machine's login has not passed.",
            where=source.address,
            remedy="fill in the form on that page, log in with `hf auth login`, and run this again",
        ) from error
    except (OSError, ValueError, of_client) as error:
        raise DatasetError(
            f"the hub did not give the files: {error}.",
            where=f"{source.address} ({', '.join(source.patterns)})",
            remedy="run it again where there is a network: it goes on where it stopped; or fetch the files otherwise "
            "and name their folder with --from",
        ) from error


def fetch_file(source: WebFiles, name: str, into: Path) -> Path:
    """Fetch one file, going on where an earlier try was cut off. Raises DatasetError where it does not come, is larger
    than it should be, or has another SHA-256 than was published."""
    target, url, wanted = into / name, source.urls[name], source.sha256.get(name)
    if target.is_file():
        return target
    partial = target.with_name(f"{target.name}.partial")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _resume(url, source.most, partial)
        if wanted is not None and (computed := sha256_file(partial)) != wanted:
            partial.unlink()
            raise Refused(f"its SHA-256 is {computed}, and {wanted} is what it should be")
    except (OSError, HTTPException, Refused) as error:
        raise DatasetError(
            f"the file was not fetched: {reason_of(error)}.",
            where=url,
            remedy="run it again: it goes on where it stopped; or fetch the files otherwise and name their folder with "
            "--from",
        ) from error
    partial.rename(target)
    return target


def _resume(url: str, most: int, partial: Path) -> None:
    have = partial.stat().st_size if partial.is_file() else 0
    ranged = {"Range": f"bytes={have}-"} if have else {}
    try:
        with _opened(url, ranged, is_allowed=lambda _: True) as answer:
            goes_on = answer.status == 206
            with partial.open("ab" if goes_on else "wb") as out:
                _copy(answer, out, most - (have if goes_on else 0), None)
    except HTTPError as error:
        if error.code != 416 or not have:  # 416: all of it is here already
            raise


def fetch_image(url: str, *, most: int, seconds: float, is_allowed: Callable[[str], bool] | None = None) -> bytes:
    """The bytes at a stranger's address. Raises Refused for another scheme than http(s), a host that is not on the
    public internet (also one that it is sent on to), more than `most` bytes, or more than `seconds`; OSError.

    Not prevented: a name that has another address the second time that it is looked up, what a proxy reaches, and a
    server that sends its headers byte by byte, which can take longer.
    """
    content = io.BytesIO()
    with _opened(url, {}, is_allowed=is_allowed or is_public) as answer:
        _copy(answer, content, most, time.monotonic() + seconds)
    return content.getvalue()


def is_public(host: str) -> bool:
    """Whether all addresses that a name has now are of the public internet."""
    addresses = {entry[4][0] for entry in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    return bool(addresses) and all(
        _is_public(ipaddress.ip_address(str(address).partition("%")[0])) for address in addresses
    )


def _is_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Also by the IPv4 addresses that an IPv6 one stands for: a gateway or a tunnel sends on to them."""
    if isinstance(address, ipaddress.IPv4Address):
        return address.is_global and not address.is_multicast and address != _AZURE
    inside = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if address in _NAT64:
        inside.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    if embedded := [each for each in inside if each is not None]:
        return all(map(_is_public, embedded))
    return address.is_global and address in _UNICAST


def reason_of(error: BaseException) -> str:
    """Why something was not fetched, in a few words."""
    if isinstance(error, HTTPError):
        return f"HTTP {error.code}"
    if isinstance(error, TimeoutError) or isinstance(getattr(error, "reason", None), TimeoutError):
        return "no answer in time"
    if isinstance(error, URLError):
        reason = error.reason
        return "no such host" if isinstance(reason, socket.gaierror) else _kind(reason)
    return "no such host" if isinstance(error, socket.gaierror) else str(error) or type(error).__name__


def _kind(reason: object) -> str:
    if isinstance(reason, ssl.SSLError):
        return "its certificate is not accepted"
    return str(getattr(reason, "strerror", None) or reason)


def _copy(answer: HTTPResponse, out: IO[bytes], most: int, deadline: float | None) -> None:
    """Write what comes; never more than `most` bytes, and nothing after the deadline."""
    promised = answer.length
    left = most
    while piece := answer.read1(_PIECE):
        left -= len(piece)
        if left < 0:
            raise Refused(f"it is larger than {most:,} bytes")
        if deadline is not None and time.monotonic() > deadline:
            raise Refused("no answer in time")
        out.write(piece)
    if promised is not None and most - left != promised:
        raise Refused(f"it ends after {most - left:,} of {promised:,} bytes")


class _Careful(HTTPRedirectHandler):
    """Follows redirects to http(s) hosts that are allowed."""

    def __init__(self, is_allowed: Callable[[str], bool]) -> None:
        self._is_allowed = is_allowed

    def redirect_request(self, req, fp, code, msg, headers, newurl):  # type: ignore[no-untyped-def] # urllib's own
        try:
            _require(newurl, self._is_allowed)
        except Refused:
            fp.close()
            raise
        return super().redirect_request(req, fp, code, msg, headers, newurl)


@contextmanager
def _opened(url: str, headers: dict[str, str], is_allowed: Callable[[str], bool]) -> Iterator[HTTPResponse]:
    """An answer of an http(s) server. Only these schemes are known: `build_opener` would read files, too."""
    _require(url, is_allowed)
    opener = OpenerDirector()
    for handler in (
        ProxyHandler(),
        HTTPHandler(),
        HTTPSHandler(),
        HTTPDefaultErrorHandler(),
        HTTPErrorProcessor(),
        _Careful(is_allowed),
    ):
        opener.add_handler(handler)
    opener.addheaders = [("User-Agent", f"fairgate/{__version__}")]
    try:
        answer = opener.open(Request(url, headers=headers), timeout=PATIENCE)  # noqa: S310 -- checked above
    except HTTPError as error:
        error.close()
        raise
    with answer:
        yield answer


def _require(url: str, is_allowed: Callable[[str], bool]) -> None:
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError as error:
        raise Refused(f"no address: {error}") from error
    if parts.scheme not in ("http", "https") or not host:
        raise Refused("not an http(s) address")
    if not is_allowed(host):
        raise Refused("the host is not on the public internet")


LARGEST: Final = 32 << 20
SECONDS: Final = 60.0
AT_ONCE: Final = 8
REPORT: Final = "fetched.csv"
FETCHED: Final = "fetched"
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def fetch_pictures(
    wanted: Sequence[tuple[str, str]],
    into: Path,
    progress: Progress | None = None,
) -> Counter[str]:
    """Fetch (name, address) pairs as `into/NAME.jpg` and the like, and count what came of each.

    What is there is not fetched again. What does not decode as a picture is not kept. `into/fetched.csv` says what
    came of every address, for a spreadsheet: a cell that would be a formula begins with '.
    """
    into.mkdir(parents=True, exist_ok=True)
    here = {path.stem for path in into.iterdir() if path.suffix in ENDINGS.values()}

    def one(entry: tuple[str, str]) -> str:
        name, url = entry
        return FETCHED if name in here else _fetch(name, url, into)

    outcomes: list[str] = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for outcome in pool.map(one, wanted):
            outcomes.append(outcome)
            if progress is not None:
                progress(len(outcomes), len(wanted))
    lines = ([*map(_cell, (*pair, outcome))] for pair, outcome in zip(wanted, outcomes, strict=True))
    atomic_write(into / REPORT, csv_text(("name", "address", "outcome"), lines))
    return Counter(outcomes)


def _cell(text: str) -> str:
    """A stranger's text, with a ' before what a spreadsheet would take for a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def _fetch(name: str, url: str, into: Path) -> str:
    """Fetch one picture; what came of it."""
    try:
        data = fetch_image(url, most=LARGEST, seconds=SECONDS)
        kind = decode(data).format or ""
        if kind not in ENDINGS:
            raise UnreadableImage(f"no ending for {kind}")
        atomic_write(into / f"{name}{ENDINGS[kind]}", data)
    except UnreadableImage:
        return "not a picture"
    except Refused as error:
        return str(error)
    except (OSError, HTTPException, ValueError) as error:
        return reason_of(error)[:100]
    return FETCHED
