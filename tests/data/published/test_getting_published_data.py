"""get_published: what is fetched from where, what is remembered of it, and what a second time compares."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import pytest
from test_published_fairface import CLASSES, authors, hub_folder
from test_published_pairs import clone

from fairgate.data.published import DATASETS, HubFiles, WebFiles, find_published
from fairgate.data.published.fetching import fetch_file, newest_commit
from fairgate.ground.errors import DatasetError

COMMIT = "54d573cdb8b5af490ba8da9da2799628f6e5c496"
REPOSITORY = "HuggingFaceM4/FairFace"
TABLE = "0.25/validation-00000-of-00001-951dbd63c8724ee1.parquet"


@pytest.fixture
def files(tmp_path):
    """The hub's files of FairFace, in small."""
    return {TABLE: (hub_folder(tmp_path / "origin", CLASSES) / TABLE).read_bytes(), "README.md": b"---\n---\n"}


def test_a_dataset_of_the_hub_is_fetched_at_its_full_commit_and_the_manifest_says_so(take, opened, hub, files):
    hub.hub(REPOSITORY, COMMIT, files, large=(TABLE,))
    made = take("fairface")
    lineage = made.manifest.lineage
    assert lineage["source"] == f"https://huggingface.co/datasets/{REPOSITORY}@{COMMIT}"
    assert lineage[TABLE] == hashlib.sha256(files[TABLE]).hexdigest()
    assert opened("fairface").verify() == []
    fetched = {path for command, path, _ in hub.asked if command == "GET" and "/resolve/" in path}
    assert fetched == {f"/datasets/{REPOSITORY}/resolve/{COMMIT}/{path}" for path in files}


def test_what_the_hub_sends_is_held_against_the_sum_that_it_names(take, hub, files):
    hub.hub(REPOSITORY, COMMIT, files, large=(TABLE,))
    other = bytearray(files[TABLE])
    other[len(other) // 2] ^= 1
    address = f"/datasets/{REPOSITORY}/resolve/{COMMIT}/{TABLE}"
    hub.answers[address] = 200, hub.answers[address][1], bytes(other)
    with pytest.raises(DatasetError, match="is not what the hub says that it is, and was removed"):
        take("fairface")


@pytest.mark.parametrize("library", [True, False])
def test_a_list_of_the_hub_cannot_name_files_outside_of_the_download(take, hub, files, tmp_path, monkeypatch, library):
    """Also where the hub's library let such a name pass."""
    hub.hub(REPOSITORY, COMMIT, files)
    mine = tmp_path / "mine.parquet"
    mine.write_bytes(b"mine")
    path = "0.25/validation-/" + "../" * 12 + str(mine).lstrip("/")
    listed = [{"type": "file", "path": path, "size": 4, "oid": "0" * 40}]
    listed[0]["lfs"] = {"oid": "0" * 64, "size": 4, "pointerSize": 130}
    address = f"/api/datasets/{REPOSITORY}/tree/{COMMIT}"
    whole = json.loads(hub.answers[address][2])
    hub.answers[address] = 200, hub.answers[address][1], json.dumps([*whole, *listed]).encode()
    hub.answers[f"/datasets/{REPOSITORY}/resolve/{COMMIT}/{path}"] = 200, {"X-Repo-Commit": COMMIT}, b"evil"
    if not library:
        monkeypatch.setattr("huggingface_hub.snapshot_download", lambda *_, **__: None)
    with pytest.raises(DatasetError, match="the hub did not give" if library else "leads out"):
        take("fairface")
    assert mine.read_bytes() == b"mine"


def test_the_first_commit_is_remembered_where_none_is_known_beforehand(take, hub, files, monkeypatch):
    later = "b" * 40
    hub.hub(REPOSITORY, later, files)
    known = find_published("fairface")
    part = known.parts["val"]
    unpinned = replace(known, parts={"val": replace(part, source=replace(part.source, commit=None))})
    monkeypatch.setattr("fairgate.data.published.importing.find_published", lambda _: unpinned)
    first = take("fairface")
    assert first.manifest.lineage["source"].endswith(f"@{later}")
    hub.hub(REPOSITORY, "c" * 40, {**files, "README.md": b"newer"})
    again = take("fairface", version="v2")
    assert again.manifest.lineage == first.manifest.lineage


def test_a_second_time_compares_files_and_writes_nothing_where_they_are_the_same(take, tmp_path):
    folder = authors(tmp_path / "given")
    first = take("fairface", folder)
    again = take("fairface", folder)
    assert first.made
    assert not again.made
    assert again.manifest == first.manifest


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_second_time_refuses_files_that_changed(take, tmp_path, version):
    folder = authors(tmp_path / "given")
    take("fairface", folder)
    labels = folder / "fairface_label_val.csv"
    labels.write_text(labels.read_text().replace("Female,White", "Male,White"))
    with pytest.raises(DatasetError, match=r"1 file\(s\) are not those that 'fairface@v1' was made of") as caught:
        take("fairface", folder, version=version)
    assert "fairface_label_val.csv" in caught.value.problem
    assert take("fairface", folder, release="other").made


def test_a_release_that_is_something_else_is_not_written_over(take, tmp_path):
    take("fairface", authors(tmp_path / "given"), release="faces")
    folder = hub_folder(tmp_path / "wide", padding="1.25")
    with pytest.raises(DatasetError, match="never written over"):
        take("fairface", folder, part="val-1.25", release="faces")


def test_groups_can_be_merged_and_the_recipe_says_how(take, opened, tmp_path):
    merge = {"age": {"3-9": "under 20", "10-19": "under 20"}}
    made = take("fairface", authors(tmp_path / "given"), merge=merge)
    assert opened("fairface").index.attributes["age"].tolist() == ["under 20", "more than 70", "under 20"]
    assert made.manifest.attributes["age"][:3] == ["0-2", "under 20", "20-29"]
    assert made.manifest.recipe["merged"] == merge
    assert not take("fairface", tmp_path / "given", merge=merge).made
    with pytest.raises(DatasetError, match="never written over"):
        take("fairface", tmp_path / "given")


def test_subjects_of_few_sets_are_left_out_only_where_somebody_says_so(take, opened, tmp_path):
    folder = clone(tmp_path / "given")
    assert take("pairs", folder).left_out == {}
    with pytest.raises(DatasetError, match="no subject has 2 sets; the largest has 1"):
        take("pairs", folder, version="v2", fewest_sets=2)
    faces = take("fairface", authors(tmp_path / "faces"), fewest_sets=3)
    assert faces.left_out == {}
    assert faces.manifest.recipe["fewest_sets"] == 3
    with pytest.raises(DatasetError, match="never written over"):
        take("fairface", tmp_path / "faces", fewest_sets=2)


def test_a_hub_that_is_not_there_is_an_error_with_another_way(hub):
    source = HubFiles("nobody/nothing", ("*.parquet",))
    with pytest.raises(DatasetError, match="the hub did not give the files") as caught:
        newest_commit(source)
    assert "--from" in str(caught.value.remedy)
    hub.close()
    with pytest.raises(DatasetError, match="the hub did not give the files"):
        newest_commit(source)


def test_a_file_is_fetched_once(server, tmp_path):
    content = bytes(range(256)) * 40
    server.files["/a.zip"] = content
    source = WebFiles("", {"a.zip": f"{server.address}/a.zip"}, 1 << 20)
    for _ in range(2):
        assert fetch_file(source, "a.zip", tmp_path).read_bytes() == content
    assert [path for _, path, _ in server.asked] == ["/a.zip"], "what is here is not fetched again"
    assert [path.name for path in tmp_path.iterdir()] == ["a.zip"]


@pytest.mark.parametrize(
    ("name", "most", "reason"),
    [
        ("a.zip", 3, "larger than 3 bytes"),
        ("gone.zip", 1 << 20, "HTTP 404"),
        ("cut.zip", 1 << 20, "too early"),
        ("elsewhere.zip", 1 << 20, "label"),
    ],
)
def test_a_file_that_is_not_what_it_should_be_is_not_kept(server, tmp_path, name, most, reason):
    server.files["/a.zip"] = b"another"
    server.answers["/cut.zip"] = 200, {"Content-Length": "99"}, b"another"
    server.answers["/elsewhere.zip"] = 302, {"Location": f"http://{'a' * 64}/a.zip"}, b""
    url = f"{server.address}/{name}"
    with pytest.raises(DatasetError, match=reason) as caught:
        fetch_file(WebFiles("", {name: url}, most), name, tmp_path)
    assert caught.value.where == url
    assert not list(tmp_path.iterdir())


def test_a_disk_that_does_not_take_a_file_is_not_blamed_on_the_server(server, tmp_path):
    server.files["/a.zip"] = b"another"
    (tmp_path / "a").write_text("a file")
    with pytest.raises(DatasetError, match="fetched and cannot be written") as caught:
        fetch_file(WebFiles("", {"a/a.zip": f"{server.address}/a.zip"}, 1 << 20), "a/a.zip", tmp_path)
    assert caught.value.where == str(tmp_path / "a" / "a.zip")


def test_every_dataset_says_where_it_is_from_on_what_terms_and_how_large_it_is():
    for name in DATASETS:
        one = find_published(name)
        assert one.name == name
        assert all((one.title, one.licence, one.citation, one.parts)), name
        for part, about in one.parts.items():
            assert about.source.address.startswith("https://"), name
            assert all((about.size, about.about.endswith("."), about.attributes)), (name, part)
            if isinstance(about.source, WebFiles):
                assert all(url.startswith("https://") for url in about.source.urls.values())
