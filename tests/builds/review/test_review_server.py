"""The page's server: one secret address of this machine, for its own page alone; pictures as bare pixels."""

from __future__ import annotations

import http.client
import io
import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from drawn import HOSTILE, open_keeper, rows, square, write_build
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from fairgate.builds.review import ReviewServer, Session, draw_sample
from fairgate.builds.review.marks import INSTRUCTIONS
from fairgate.builds.review.sample import read_png, read_rows
from fairgate.data import Dataset
from fairgate.ground.errors import DatasetError, SettingsError
from fairgate.reports.standalone_page import render_review


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """Asks a server as a browser would; headers can be changed, or left out with None."""

    def __init__(self, server: ReviewServer) -> None:
        self.server = server

    def __call__(self, path: str, body: Any = None, *, whole: str | None = None, **headers: str | None) -> Answer:
        own = f"127.0.0.1:{self.server.port}"
        said: dict[str, str | None] = {"Host": own, "Sec-Fetch-Site": "same-origin"}
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        if data is not None:
            said |= {"Origin": f"http://{own}", "Content-Type": "application/json", "Content-Length": str(len(data))}
        said |= {name.replace("_", "-"): value for name, value in headers.items()}
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=10)
        connection.putrequest(
            "GET" if data is None else "POST", whole or f"/{self.server.token}/{path}", skip_host=True
        )
        for name, value in said.items():
            if value is not None:
                connection.putheader(name, value)
        connection.endheaders(data)
        answer = connection.getresponse()
        found = Answer(answer.status, dict(answer.getheaders()), answer.read())
        connection.close()
        return found


@contextmanager
def serving(dataset: Dataset, folder: Path) -> Iterator[Client]:
    sample = draw_sample(dataset, 10)
    with (
        open_keeper(dataset, folder, sample) as keeper,
        ReviewServer(Session(dataset, sample, keeper), render_review(dataset.manifest, INSTRUCTIONS)) as server,
    ):
        thread = threading.Thread(target=server.serve)
        thread.start()
        try:
            yield Client(server)
        finally:
            server.stop()
            thread.join()


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return write_build(tmp_path_factory.mktemp("server"), rows(12, caption=HOSTILE), notice=HOSTILE[:60])


@pytest.fixture(scope="module")
def ask(dataset, tmp_path_factory):
    with serving(dataset, tmp_path_factory.mktemp("marks")) as client:
        yield client


def test_the_page_admits_its_own_style_and_script_and_nothing_else(ask):
    page = ask("")
    assert page.status == 200
    policy = page.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert page.headers["X-Content-Type-Options"] == "nosniff"
    assert page.headers["Cache-Control"] == "no-store"
    text = page.body.decode()
    assert text.count("<script>") == 1
    assert "<img src=x" not in text
    assert "http" not in text.replace("http-equiv", "")


def test_marks_go_the_whole_way(ask):
    state = ask("state").json
    assert [item["kind"] for item in state["items"]] == ["image"] * 10 + ["set"]
    marked = ask("mark", {"item": 0, "what": "perceived", "answer": {"tone": "dark", "gender": None}})
    assert marked.json["asked"]["caption"] == HOSTILE
    assert marked.headers["Content-Type"] == "application/json"
    assert ask("mark", {"item": 0, "what": "quality", "answer": "unsure"}).json["complete"]
    assert ask("state").json["items"][0]["quality"] == "unsure"
    assert ask("undo", {}).json["number"] == 0


def test_an_answer_that_is_none_is_refused_with_a_remedy(ask):
    refused = ask("mark", {"item": 0, "what": "quality", "answer": 7})
    assert refused.status == 409
    assert refused.json["remedy"] == "load the page again"


@pytest.mark.parametrize("path", ["", "state", "picture/0/0"])
@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "evil.example:80"},
        {"Host": "127.0.0.1"},
        {"Host": None},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
)
def test_another_name_or_page_is_not_answered(ask, path, headers):
    refused = ask(path, **headers)
    assert refused.status == 403
    assert set(refused.json) == {"error"}
    assert "default-src 'none'" in refused.headers["Content-Security-Policy"]


def test_a_link_to_the_whole_address_can_be_followed_and_nothing_behind_it(ask):
    clicked = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"}
    assert ask("", **clicked).status == 200
    assert ask("state", **clicked).status == 403
    assert ask("picture/0/0", **clicked).status == 403


def test_the_name_localhost_is_this_machine(ask):
    assert ask("state", Host=f"localhost:{ask.server.port}").status == 200


@pytest.mark.parametrize("whole", ["/", "/state", "/wrong/state", "//state", "/%C3%A9/", "*"])
def test_without_the_secret_nothing_is_answered(ask, whole):
    assert ask("", whole=whole).status in (400, 403)


def test_two_servers_have_two_secrets_of_192_bits(ask, dataset, tmp_path):
    with serving(dataset, tmp_path) as other:
        assert other.server.token != ask.server.token
        assert len(other.server.token) == 32


@pytest.mark.parametrize(
    ("path", "body", "headers", "status"),
    [
        ("mark", {}, {"Origin": None}, 403),
        ("mark", {}, {"Origin": "http://evil.example"}, 403),
        ("mark", {}, {"Content_Type": "text/plain"}, 403),
        ("mark", {}, {"Content_Length": "70000"}, 413),
        ("mark", {}, {"Content_Length": "0000000020"}, 413),
        ("mark", {}, {"Content_Length": None}, 413),
        ("mark", b"{", {}, 400),
        ("mark", b"[" * 60_000, {}, 400),
        ("mark", b"[]", {}, 400),
        ("mark", {"item": "0", "what": "quality", "answer": "good"}, {}, 404),
        ("state", {}, {}, 404),
        ("nothing", {}, {}, 404),
    ],
)
def test_posts_are_this_pages_json_or_refused(ask, path, body, headers, status):
    assert ask(path, body, **headers).status == status


@pytest.mark.parametrize(
    ("path", "status"),
    [("picture/99/0", 409), ("picture/0/1", 409), ("picture/-1/0", 404), ("../../etc/passwd", 404), ("icon", 200)],
)
def test_only_what_there_is_can_be_asked_for(ask, path, status):
    assert ask(path).status == status


def test_a_picture_holds_its_pixels_and_nothing_of_its_file(tmp_path):
    told = PngInfo()
    told.add_text("parameters", "a dark woman")
    found = list(rows(3))
    found[0]["image"] = square(1, 2, 3, pnginfo=told)
    found[5]["image"] = square(9, 9, 9, encoding="JPEG", exif=Image.Exif())
    dataset = write_build(tmp_path, found)
    picture = read_png(dataset, 0)
    assert b"dark woman" in found[0]["image"]
    assert b"dark woman" not in picture
    with Image.open(io.BytesIO(picture)) as shown:
        assert (shown.format, shown.getpixel((3, 3))) == ("PNG", (1, 2, 3))
    assert read_png(dataset, 5).startswith(b"\x89PNG")


def test_every_row_is_found_over_many_shards(tmp_path):
    dataset = write_build(tmp_path, rows(12), shard_bytes=2000)
    assert len(dataset.manifest.shards) > 2
    found = read_rows(dataset, range(48), ["set_id", "vqa_real"])
    assert [found[row]["set_id"] for row in range(48)] == list(dataset.index.set_id)
    with Image.open(io.BytesIO(read_png(dataset, 46))) as shown:
        assert shown.getpixel((0, 0)) == (11, 120, 0)


def test_a_picture_that_was_deleted_is_told_and_the_rest_goes_on(tmp_path):
    dataset = write_build(tmp_path, rows(12), shard_bytes=2000)
    with serving(dataset, tmp_path / "reviews") as ask:
        items = range(10)
        (dataset.folder / dataset.manifest.shards[0].file).unlink()
        answers = [ask(f"picture/{number}/0") for number in items]
        gone = [answer for answer in answers if answer.status == 409]
        assert 0 < len(gone) < 10
        assert all("is missing" in answer.json["error"] and answer.json["remedy"] for answer in gone)
        assert ask("state").status == 200


def test_bytes_that_are_no_picture_are_told(tmp_path):
    dataset = write_build(tmp_path, rows(2))
    shard = dataset.folder / dataset.manifest.shards[0].file
    shard.write_bytes(shard.read_bytes().replace(b"IHDR", b"IHDX"))
    with pytest.raises(DatasetError, match="cannot be read"):
        read_png(dataset, 0)


def test_labels_without_pictures_are_told(tmp_path):
    dataset = write_build(tmp_path, [row | {"image": None} for row in rows(2)])
    with pytest.raises(DatasetError, match="not there"):
        read_png(dataset, 0)
    with (
        open_keeper(dataset, tmp_path / "reviews", draw_sample(dataset, 2)) as keeper,
        pytest.raises(DatasetError, match="labels and no images"),
    ):
        Session(dataset, draw_sample(dataset, 2), keeper)


def test_a_port_that_is_taken_is_told(ask, dataset):
    with pytest.raises(SettingsError, match="leave --port out"):
        ReviewServer(ask.server.session, ask.server.page, ask.server.port)


def test_the_page_can_stop_its_server(dataset, tmp_path):
    with serving(dataset, tmp_path) as ask:
        assert ask("stop", {}).status == 200


def test_a_dataset_of_other_rows_than_it_says_is_told(tmp_path):
    dataset, other = write_build(tmp_path / "a", rows(12)), write_build(tmp_path / "b", rows(6))
    shutil.copy(other.folder / other.manifest.shards[0].file, dataset.folder / dataset.manifest.shards[0].file)
    with pytest.raises(DatasetError, match="rows are missing"):
        read_png(dataset, 47)
