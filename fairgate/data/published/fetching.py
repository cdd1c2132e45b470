"""Downloads: repositories of the hub at a full commit, and single files over HTTP."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from urllib import request
from urllib.error import HTTPError, URLError

from fairgate.data import inside
from fairgate.data.published.contract import HubFiles, WebFiles
from fairgate.ground.atomic import atomic_write
from fairgate.ground.errors import DatasetError, disk_errors
from fairgate.ground.hashing import sha256_file
from fairgate.version import __version__

PATIENCE = 60.0
"""Seconds without a byte after which a server is given up."""
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
    """Fetch one file, whole or not at all. Raises DatasetError where it does not come, or is too large."""
    target, url = into / name, source.urls[name]
    if target.is_file():
        return target
    try:
        with _opened(url) as answer:
            content = answer.read(source.most + 1)
            if len(content) > source.most:
                raise Refused(f"it is larger than {source.most:,} bytes")
            if answer.length:
                raise Refused(f"it ends {answer.length:,} bytes too early")
    except (
        OSError,
        HTTPException,
        ValueError,
    ) as error:  # ValueError: also of a redirect to no address
        raise DatasetError(
            f"the file was not fetched: {reason_of(error)}.",
            where=url,
            remedy="run it again: files that came stay; or fetch the files otherwise and name their folder with --from",
        ) from error
    remedy = "make room there, or see to the rights of the folder, then run again"
    with disk_errors(DatasetError, "the file was fetched and cannot be written", target, remedy):
        target.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(target, content)
    return target


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


@contextmanager
def _opened(url: str) -> Iterator[HTTPResponse]:
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
        answer = opener.open(url, timeout=PATIENCE)
    except HTTPError as error:
        error.close()
        raise
    with answer:
        yield answer
