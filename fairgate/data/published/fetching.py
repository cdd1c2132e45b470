"""Downloads: repositories of the hub at a full commit, and single files over HTTP."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import IO
from urllib import request
from urllib.error import HTTPError, URLError

from fairgate.data import inside
from fairgate.data.published.contract import HubFiles, WebFiles
from fairgate.ground.errors import DatasetError
from fairgate.ground.hashing import sha256_file
from fairgate.version import __version__

PATIENCE = 60.0
"""Seconds without a byte after which a server is given up."""
_PIECE = 1 << 16
COMMIT = re.compile(r"[0-9a-f]{40}")


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
        with _opened(url, ranged) as answer:
            goes_on = answer.status == 206
            with partial.open("ab" if goes_on else "wb") as out:
                _copy(answer, out, most - (have if goes_on else 0))
    except HTTPError as error:
        if error.code != 416 or not have:  # 416: all of it is here already
            raise


def reason_of(error: BaseException) -> str:
    """Why something was not fetched, in a few words."""
    if isinstance(error, HTTPError):
        return f"HTTP {error.code}"
    if isinstance(error, TimeoutError) or isinstance(getattr(error, "reason", None), TimeoutError):
        return "no answer in time"
    reason = error.reason if isinstance(error, URLError) else error
    if isinstance(reason, socket.gaierror):
        return "no such host"
    if isinstance(reason, ssl.SSLError):
        return "its certificate is not accepted"
    return str(getattr(reason, "strerror", None) or reason) or type(error).__name__


def _copy(answer: HTTPResponse, out: IO[bytes], most: int) -> None:
    """Write what comes; never more than `most` bytes."""
    promised = answer.length
    left = most
    while piece := answer.read1(_PIECE):
        left -= len(piece)
        if left < 0:
            raise Refused(f"it is larger than {most:,} bytes")
        out.write(piece)
    if promised is not None and most - left != promised:
        raise Refused(f"it ends after {most - left:,} of {promised:,} bytes")


@contextmanager
def _opened(url: str, headers: dict[str, str]) -> Iterator[HTTPResponse]:
    """An answer of an http(s) server. Only these schemes are known: `build_opener` would read files, too."""
    opener = request.OpenerDirector()
    for handler in (
        request.ProxyHandler(),
        request.UnknownHandler(),
        request.HTTPHandler(),
        request.HTTPSHandler(),
        request.HTTPDefaultErrorHandler(),
        request.HTTPErrorProcessor(),
        request.HTTPRedirectHandler(),
    ):
        opener.add_handler(handler)
    opener.addheaders = [("User-Agent", f"fairgate/{__version__}")]
    try:
        answer = opener.open(request.Request(url, headers=headers), timeout=PATIENCE)  # noqa: S310 -- no handler of files
    except HTTPError as error:
        error.close()
        raise
    with answer:
        yield answer
