"""Pointers, lists and objects: what is refused before anything is written, and what is brought."""

from __future__ import annotations

import gc
import os
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from dvc_objects_by_hand import Objects, config, pointer
from ill_servers import serving

from fairgate.data.remote import Fetched, Tracked, fetch, open_store, read_pointers
from fairgate.ground.errors import DatasetError

ZERO = "0" * 32


@pytest.fixture
def store(tmp_path: Path) -> Objects:
    return Objects(tmp_path / "storage")


@pytest.fixture
def root(tmp_path: Path, store: Objects) -> Path:
    """A repository whose remote is a folder next to it."""
    root = tmp_path / "outer" / "repository"
    (root / ".dvc").mkdir(parents=True)
    (root / ".dvc" / "config").write_text(config(store.root), encoding="utf-8")
    return root


def read(**files: str) -> list[Tracked]:
    texts = {name.replace("__", "/").replace("_", "."): text for name, text in files.items()}
    return read_pointers(texts, lambda name: texts[name].encode() if name in texts else None)


def brought(root: Path, text: str, *, name: str = "x_dvc", **options: object) -> list[Fetched]:
    with open_store(root, None, own_settings=True, shown="here") as opened:
        return fetch(read(**{name: text}), root, opened, **options)  # type: ignore[arg-type]


def everything(root: Path) -> set[str]:
    return {path.relative_to(root).as_posix() for path in root.rglob("*")}


# paths

ELSEWHERE = [
    "../../action/evil.py",
    "/var/evil.py",
    "a/../../../evil",
    "./evil",
    "a//b",
    "",
    ".",
    "a/",
    ".git/config",
    "a/.GIT/hooks/post-checkout",
    ".dvc/config.local",
    ".github/workflows/x.yml",
    "lib/python3.12/site-packages/evil.pth",
    "pyvenv.cfg",
    "a\\..\\b",
    "a\nb",
    "a\x00b",
    "a\x1b[2Jb",
    "\u202egnp.a",
    "x" * 300,
    "/".join(["d"] * 100),
]


@pytest.mark.parametrize("path", ELSEWHERE, ids=lambda path: repr(path[:20]))
def test_a_list_with_a_path_elsewhere_is_refused_before_anything_is_written(
    root: Path, store: Objects, path: str
) -> None:
    md5 = store.add_folder({"a-good-one": b"x", path: b"evil", "z": b"y"})
    before = everything(root.parent.parent)
    with pytest.raises(DatasetError, match="nothing is written there") as caught:
        brought(root, pointer("extra", f"{md5}.dir"))
    assert f"{md5}.dir" in (caught.value.where or "")
    assert everything(root.parent.parent) == before
    assert not Path("/var/evil.py").exists()


@pytest.mark.parametrize(
    "path", ["../x", "../../x", "/var/x", "s3://bucket/x", "~/x", ".", "..", ".git/hooks/x", ".dvc/config", "a/../../x"]
)
def test_a_pointer_to_a_place_elsewhere_is_refused(path: str) -> None:
    with pytest.raises(DatasetError, match="nothing is written there"):
        read(x_dvc=pointer(path, ZERO))
    with pytest.raises(DatasetError, match="nothing is written there"):
        read(dvc_lock=f"stages: {{a: {{outs: [{{path: '{path}', hash: md5, md5: {ZERO}}}]}}}}")


def test_a_working_folder_leads_out_no_further_than_a_path() -> None:
    with pytest.raises(DatasetError, match="leads out of the repository"):
        read(x_dvc=pointer("x", ZERO, top="wdir: ..\n"))
    (one,) = read(gpu__x_dvc=pointer("x", ZERO, top="wdir: ..\n"))
    assert one.path == "x"


# pointers


def test_outputs_of_stages_are_found_by_the_flags_that_dvc_yaml_gives_them() -> None:
    found = read(
        gpu__dvc_yaml="""
vars: [{world: build}]
stages:
  plain: {cmd: x, outs: ["${world}/a", {b: {cache: false}}], metrics: [{m.json: {cache: false}}], plots: [p.csv]}
  each:
    matrix: {subject: [chef, doctor]}
    wdir: ..
    outs: ["build/${item.subject}/set": {cache: false, persist: true}, "build/${item.subject}/model": {remote: other}]
  made: {foreach: [1], do: {wdir: /nowhere/../.., cmd: x, outs: [o]}}
""".replace("wdir: /nowhere/../..", "wdir: .."),
        gpu__dvc_lock=f"""
schema: '2.0'
stages:
  plain:
    deps: [{{path: dep, hash: md5, md5: {ZERO}}}]
    outs:
    - {{path: build/a, hash: md5, md5: {ZERO}.dir, nfiles: 2}}
    - {{path: b, hash: md5, md5: {ZERO}}}
    - {{path: m.json, hash: md5, md5: {ZERO}}}
    - {{path: p.csv, hash: md5, md5: {ZERO}}}
  each@chef:
    outs:
    - {{path: build/chef/set, hash: md5, md5: {ZERO}.dir}}
    - {{path: build/chef/model, hash: md5, md5: {ZERO}.dir}}
  made@1: {{outs: [{{path: o, hash: md5, md5: {ZERO}}}]}}
""",
    )
    assert {one.path: (one.folder, one.remote) for one in found} == {
        "gpu/build/a": (True, None),
        "gpu/p.csv": (False, None),
        "build/chef/model": (True, "other"),
        "o": (False, None),
    }


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("deps:\n- path: x\n  repo: {url: https://evil.invalid}\n" + pointer("x", ZERO), r"`dvc import`"),
        ("deps:\n- path: https://evil.invalid/x\n" + pointer("x", ZERO), r"`dvc import-url`"),
        ("outs:\n- path: x\n  files:\n  - {relpath: a, version_id: b}\n", "cloud versioning"),
        (f"outs:\n- md5: {ZERO}\n  path: x\n", "tracked by DVC 2"),
        ("outs:\n- md5: ../../../../etc\n  hash: md5\n  path: x\n", "no MD5"),
        (pointer("x", ZERO.upper().replace("0", "A")), "no MD5"),
    ],
)
def test_what_does_not_come_from_the_repositorys_own_remote_is_refused_by_name(
    root: Path, text: str, says: str
) -> None:
    with pytest.raises(DatasetError, match=says) as caught:
        brought(root, text)
    assert caught.value.where == "x.dvc"
    assert caught.value.remedy


DEEP = "[" * 100_000


@pytest.mark.parametrize(
    "text",
    ["outs: " + DEEP, "a: &a [1]\nouts: *b\n", "outs: [", "\x00", "{[1]: 2}", "? [a]\n: 1", "a: " + "{b: " * 999],
)
def test_a_pointer_that_is_none_is_an_error(text: str) -> None:
    with pytest.raises(DatasetError, match="no pointer of DVC") as caught:
        read(x_dvc=text)
    assert caught.value.where == "x.dvc"


@pytest.mark.parametrize("text", ["", "[]", "1", "outs: 5", "outs: {a: 1}", "stages: 7", "stages: {a: [1]}"])
def test_a_pointer_that_tracks_nothing_tracks_nothing(text: str) -> None:
    assert read(dvc_lock=text, x_dvc=text) == []


def test_tags_of_yaml_build_nothing(tmp_path: Path) -> None:
    assert read(x_dvc=f"!!python/object/apply:pathlib.Path.touch [{tmp_path / 'evil'}]") == []
    assert not (tmp_path / "evil").exists()


# lists and objects


@pytest.mark.parametrize(
    "text",
    [
        *(DEEP, DEEP + "]" * 100_000, "5", '{"a": 1}', "[1]", "[null]", "", "\xff", "[[]]", '[{"relpath": "a"}]'),
        '[{"md5": 1, "relpath": "a"}]',
        '[{"md5": "../../../etc/passwd", "relpath": "a"}]',
        f'[{{"md5": "{ZERO}", "relpath": 5}}]',
        f'[{{"md5": "{ZERO}", "relpath": "a"}}, {{"md5": "{ZERO}", "relpath": "a"}}]',
        f'[{{"md5": "{ZERO}", "relpath": "a"}}, {{"md5": "{ZERO}", "relpath": "a/b"}}]',
    ],
    ids=range(15),
)
def test_a_list_that_is_none_is_an_error(root: Path, store: Objects, text: str) -> None:
    md5 = store.add(text.encode("latin-1"), suffix=".dir")
    with pytest.raises(DatasetError) as caught:
        brought(root, pointer("extra", f"{md5}.dir"))
    assert caught.value.remedy
    assert not (root / "extra").exists()


def test_an_object_with_other_content_than_its_name_takes_no_place(root: Path, store: Objects) -> None:
    md5 = store.add(b"evil", md5=store.add(b"good"))
    with pytest.raises(DatasetError, match="other content than its name says"):
        brought(root, pointer("x", md5))
    assert everything(root) == {".dvc", ".dvc/config"}
    cached = Objects(root / ".dvc" / "cache")
    cached.add(b"good", md5=md5)  # the other place has it
    assert brought(root, pointer("x", md5))[0].fetched == 1
    assert (root / "x").read_bytes() == b"good"


@pytest.mark.parametrize("what", ["fifo", "device", "folder"])
def test_an_object_that_is_no_file_is_none(root: Path, store: Objects, what: str) -> None:
    path = store.path(ZERO)
    path.parent.mkdir(parents=True)
    if what == "fifo":
        os.mkfifo(path)
    elif what == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    with pytest.raises(DatasetError, match="neither DVC's cache here nor the remote has x"):
        brought(root, pointer("x", ZERO))


def test_what_is_missing_is_named_and_what_came_stays(root: Path, store: Objects) -> None:
    files = {f"{number:03d}": bytes([number]) for number in range(50)}
    text = pointer("many", f"{store.add_folder(files)}.dir")
    lost = store.path(store.add(bytes([40])))
    lost.rename(lost.with_suffix(".away"))
    with pytest.raises(DatasetError, match="the remote has many/040") as caught:
        brought(root, text)
    assert "dvc push" in (caught.value.remedy or "")
    lost.with_suffix(".away").rename(lost)
    (root / "many" / ".x.1-2.fairgate-draft").write_text("of a killed run")
    seen: list[tuple[int, int]] = []
    (one,) = brought(root, text, progress=lambda done, total: seen.append((done, total)))
    assert 0 < one.fetched < one.files == 50
    assert seen[-1] == (one.fetched, one.fetched)
    assert {path.name: path.read_bytes() for path in (root / "many").iterdir()} == files
    (one,) = brought(root, text)
    assert (one.fetched, one.bytes) == (0, 0)


def test_only_what_is_wanted_of_a_folder_is_fetched(root: Path, store: Objects) -> None:
    text = pointer("data", f"{store.add_folder({'a/x': b'1', 'a/y': b'2', 'ab': b'3'})}.dir")
    brought(root, text, only="data/a")
    assert everything(root / "data") == {"a", "a/x", "a/y"}
    with pytest.raises(DatasetError, match="no tracked folder has a file data/b"):
        brought(root, text, only="data/b")


def test_a_full_disk_is_an_error(root: Path, store: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    text = pointer("x", store.add(b"x"))
    root.chmod(0o500)
    monkeypatch.setattr(os, "open", _no_new_files(os.open))
    with pytest.raises(DatasetError, match="could not be read or written: No space left") as caught:
        brought(root, text)
    monkeypatch.undo()
    root.chmod(0o700)
    assert "make room" in (caught.value.remedy or "")


def _no_new_files(real: object) -> object:
    def opened(path: object, flags: int, *rest: object, **more: object) -> int:
        if flags & os.O_CREAT and "fairgate-draft" in str(path):
            raise OSError(28, "No space left on device")
        return real(path, flags, *rest, **more)  # type: ignore[operator,no-any-return]

    return opened


# what is there already


def test_other_content_and_other_files_stay_until_somebody_says_force(root: Path, store: Objects) -> None:
    text = pointer("data", f"{store.add_folder({'a': b'1', 'b/c': b'2'})}.dir")
    (root / "data" / "b").mkdir(parents=True)
    (root / "data" / "a").write_bytes(b"mine")
    (root / "data" / "b" / "stale").write_bytes(b"of an earlier job")
    (root / "data" / "link").symlink_to("/etc")
    with pytest.raises(
        DatasetError, match=r"1 file\(s\) .* 2 are in no pointer: data/a, data/b/stale, data/link"
    ) as caught:
        brought(root, text)
    assert "--force" in (caught.value.remedy or "")
    assert (root / "data" / "a").read_bytes() == b"mine"
    assert not (root / "data" / "b" / "c").exists()
    assert brought(root, text, force=True)[0].fetched == 2
    assert everything(root / "data") == {"a", "b", "b/c"}
    assert Path("/etc").is_dir()


def test_force_leaves_no_empty_folder_of_a_release_that_another_branch_tracks(root: Path, store: Objects) -> None:
    (root / "datasets" / "jobs" / "v2").mkdir(parents=True)
    (root / "datasets" / "jobs" / "v2" / "manifest.json").write_bytes(b"of another branch")
    md5 = store.add_folder({"jobs/v1/manifest.json": b"of this one"})
    assert brought(root, pointer("datasets", f"{md5}.dir"), force=True)[0].fetched == 1
    assert [path.name for path in (root / "datasets" / "jobs").iterdir()] == ["v1"]


@pytest.mark.parametrize("what", ["folder", "inner folder", "file", "fifo", "folder for a file", "file for a folder"])
def test_nothing_is_written_through_a_link_or_into_something_else(
    root: Path, store: Objects, tmp_path: Path, what: str
) -> None:
    target = tmp_path / "target"
    (target / "b").mkdir(parents=True)
    (target / "file").write_text("untouched", encoding="utf-8")
    if what == "folder":
        (root / "data").symlink_to(target)
    else:
        (root / "data").mkdir()
    if what == "inner folder":
        (root / "data" / "b").symlink_to(target / "b")
    elif what == "file":
        (root / "data" / "a").symlink_to(target / "file")
    elif what == "fifo":
        os.mkfifo(root / "data" / "a")
    elif what == "folder for a file":
        (root / "data" / "a").mkdir()
    elif what == "file for a folder":
        (root / "data" / "b").write_text("x")
    text = pointer("data", f"{store.add_folder({'a': b'1', 'b/c': b'2'})}.dir")
    for force in (False, True):
        with pytest.raises(DatasetError, match="nothing is written through it"):
            brought(root, text, force=force)
    assert everything(target) == {"b", "file"}
    assert (target / "file").read_text(encoding="utf-8") == "untouched"


@pytest.mark.parametrize("path", ["venv", "venv/lib", "venv/lib/new", "venv/extra.pth"])
def test_a_python_environment_is_not_written_into(root: Path, store: Objects, path: str) -> None:
    (root / "venv" / "lib").mkdir(parents=True)
    (root / "venv" / "pyvenv.cfg").write_text("home = /usr", encoding="utf-8")
    md5 = store.add(b"import evil") if path.endswith(".pth") else f"{store.add_folder({'sitecustomize.py': b'x'})}.dir"
    with pytest.raises(DatasetError, match="the folder is a Python environment"):
        brought(root, pointer(path, md5), force=True)
    assert everything(root / "venv") == {"lib", "pyvenv.cfg"}


def test_two_pointers_of_one_place_are_refused(root: Path, store: Objects) -> None:
    outer = pointer("data", f"{store.add_folder({'a': b'1', 'b/c': b'2'})}.dir")
    for path, md5 in (("data/b", f"{store.add_folder({'d': b'2'})}.dir"), ("data/a", store.add(b"9")), ("data", ZERO)):
        inner = pointer(path, md5)
        with open_store(root, None, own_settings=True, shown="here") as opened:
            some = read(x_dvc=outer, y_dvc=inner)
            with pytest.raises(DatasetError, match=r"two pointers want data|neither DVC's cache"):
                fetch(some, root, opened)
    assert not (root / "data").exists()


# the configuration


def test_paths_of_a_commits_configuration_lead_where_they_would_in_the_repository(root: Path, tmp_path: Path) -> None:
    away = tmp_path / "storage"
    for url, folder in (("store", root / ".dvc/store"), ("../../../storage", away), (tmp_path, tmp_path)):
        objects = Objects(folder)
        md5 = objects.add(f"through {url}".encode())
        files = {".dvc/config": config(url).encode()}
        with open_store(root, files.get, own_settings=False, shown="main") as opened:
            fetch(read(x_dvc=pointer("x", md5)), root, opened, force=True)
        assert (root / "x").read_bytes() == f"through {url}".encode()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[core]\nremote = nowhere\n", "the default remote 'nowhere' is not configured"),
        ("[core\n", "cannot be used"),
        ("[core]\nremote = store\n['remote \"store\"']\nx = 1\n", "cannot be used"),
        (config("x", more="    version_aware = true\n"), "cloud versioning"),
        (config("s3://b/x", more="    configpath = aws\n"), "`configpath` names a file of the repository"),
        (config("ssh://b/x", more="    keyfile = ../keys/id\n"), "`keyfile` names a file of the repository"),
        (config("https://b/x", more="    ssl_verify = ca.pem\n"), "`ssl_verify` names a file of the repository"),
    ],
)
def test_a_configuration_that_cannot_be_used_is_an_error(root: Path, text: str, says: str) -> None:
    (root / ".dvc" / "aws").write_text("[default]\ncredential_process = touch evil\n", encoding="utf-8")
    with (
        pytest.raises(DatasetError, match=says),
        open_store(root, {".dvc/config": text.encode()}.get, own_settings=False, shown="main"),
    ):
        pass


def test_a_file_inside_the_working_tree_by_its_absolute_path_is_the_branchs_too(root: Path) -> None:
    (root / "aws").write_text("x", encoding="utf-8")
    text = config("s3://b/x", more=f"    configpath = {root / 'aws'}\n")
    with (
        pytest.raises(DatasetError, match="`configpath` names a file of the repository"),
        open_store(root, {".dvc/config": text.encode()}.get, own_settings=False, shown="main"),
    ):
        pass


def test_a_remote_that_does_not_answer_is_an_error(root: Path) -> None:
    files = {".dvc/config": config("http://127.0.0.1:9/x", more="    connect_timeout = 1\n").encode()}
    with open_store(root, files.get, own_settings=False, shown="main") as opened, pytest.raises(DatasetError) as caught:
        fetch(read(x_dvc=pointer("x", ZERO)), root, opened)
    assert "can be reached" in (caught.value.remedy or "")


class Silent(SimpleHTTPRequestHandler):
    """Writes no log."""

    def log_message(self, *words: object) -> None:
        pass


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # dvc-http closes no session
def test_a_remote_of_another_machine_is_read_through_dvcs_filesystem(root: Path, store: Objects) -> None:
    text = pointer("data", f"{store.add_folder({str(number): bytes([number]) * 70_000 for number in range(9)})}.dir")
    handler = partial(Silent, directory=str(store.root))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        files = {".dvc/config": config(f"http://127.0.0.1:{server.server_port}").encode()}
        with open_store(root, files.get, own_settings=False, shown="main") as opened:
            (one,) = fetch(read(x_dvc=text), root, opened)
        server.shutdown()
    gc.collect()  # the session's warning belongs to this test
    assert (one.fetched, one.bytes) == (9, 9 * 70_000)
    assert (root / "data" / "3").read_bytes() == bytes([3]) * 70_000


def test_the_working_folder_and_the_environment_are_as_before(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = Path.cwd()
    with open_store(root, None, own_settings=True, shown="here"):
        assert Path.cwd() != here
        os.environ["AWS_CONFIG_FILE"] = "x"
    assert Path.cwd() == here
    assert "AWS_CONFIG_FILE" not in os.environ


@pytest.mark.nightly
def test_an_s3_that_drops_every_connection_is_asked_twice_by_each_layer_below_and_not_five_times(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("dvc_s3")
    for name, value in {"ACCESS_KEY_ID": "x", "SECRET_ACCESS_KEY": "x", "EC2_METADATA_DISABLED": "true"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    asked: list[int] = []
    with serving(lambda connection: asked.append(len(connection.recv(65536)))) as address:
        options = f"    endpointurl = {address}\n    region = eu-west-1\n"
        (root / ".dvc" / "config").write_text(config("s3://bucket/x", more=options), encoding="utf-8")
        with pytest.raises(DatasetError, match="could not be read") as caught:
            brought(root, pointer("extra", "1" * 32))
    assert caught.value.where == "remote 'store'"
    assert len(asked) <= 2 * 2 * 5  # aiohttp, botocore, s3fs
    assert "AWS_MAX_ATTEMPTS" not in os.environ
