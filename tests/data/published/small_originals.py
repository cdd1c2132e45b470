"""What tests of published datasets are made with: drawn pictures, tables as the hub has them, a web server."""

from __future__ import annotations

import hashlib
import io
import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from PIL import Image


def drawn(number: int, encoding: str = "PNG") -> bytes:
    """A picture whose bytes no other number has."""
    buffer = io.BytesIO()
    comment = {"comment": str(number).encode()} if encoding == "JPEG" else {}
    Image.new("RGB", (8, 8), (number % 251, number // 251, 90)).save(buffer, encoding, **comment)
    return buffer.getvalue()


def write_hub_parquet(
    path: Path, columns: Mapping[str, list[Any]], classes: Mapping[str, list[str]] | None, picture: str = "image"
) -> None:
    """A table as `datasets` pushes it: pictures as structs, classes as numbers, their names in the metadata."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    features: dict[str, Any] = {name: {"dtype": "string", "_type": "Value"} for name in columns}
    features[picture] = {"_type": "Image"}
    features |= {name: {"names": names, "_type": "ClassLabel"} for name, names in (classes or {}).items()}
    told = json.dumps({"info": {"features": features}})
    image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    table = pa.table({name: pa.array(held, type=image if name == picture else None) for name, held in columns.items()})
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(
        table.replace_schema_metadata(None if classes is None else {"huggingface": told}), path, row_group_size=3
    )


class Server:
    """Files under paths of one web server, what was asked of it, and how it answers some paths."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.answers: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self.asked: list[tuple[str, str, str | None]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.answer(self)

            do_HEAD = do_GET

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._http.server_port}"
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        path, ranged = unquote(urlsplit(request.path).path), request.headers.get("Range")
        self.asked.append((request.command, path, ranged))
        status, headers, body = self.answers.get(path, (200, {}, self.files.get(path, b"")))
        if path not in self.files and path not in self.answers:
            status, body = 404, b"gone"
        headers = {"ETag": f'"{hashlib.sha256(body).hexdigest()}"', **headers}
        if ranged and status == 200:
            start = int(ranged.removeprefix("bytes=").rstrip("-").partition("-")[0])
            status, body = (206, body[start:]) if start < len(body) else (416, b"")
        request.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            request.send_header(name, value)
        request.end_headers()
        if request.command == "GET":
            request.wfile.write(body)

    def hub(self, repository: str, commit: str, files: Mapping[str, bytes], large: tuple[str, ...] = ()) -> None:
        """Serve a dataset repository as the hub does; `large` files have a SHA-256 in its list."""
        listed = [
            {"type": "file", "path": path, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}
            | (
                {"lfs": {"oid": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 130}}
                if path in large
                else {}
            )
            for path, data in files.items()
        ]
        named = {"X-Repo-Commit": commit}
        self.answers[f"/api/datasets/{repository}/tree/{commit}"] = 200, named, json.dumps(listed).encode()
        about = {"id": repository, "sha": commit, "siblings": [{"rfilename": path} for path in files]}
        self.answers[f"/api/datasets/{repository}"] = 200, named, json.dumps(about).encode()
        for path, data in files.items():
            self.answers[f"/datasets/{repository}/resolve/{commit}/{path}"] = 200, named, data

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
