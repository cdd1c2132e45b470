"""`fairgate demo` without a clone: what the package fairgate-demo holds, and what becomes of it."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from typer.testing import CliRunner

from fairgate import __version__
from fairgate.ground.errors import DatasetError
from fairgate.interfaces.cli.main import app
from fairgate.portraits.commands import demo_folder

ROOT = Path(__file__).parents[2]
SUITE = "fairness_suites/occupations.yaml"


def installed(site: Path, files: dict[str, bytes], version: str = __version__) -> Path:
    """A site folder with the package, as pip leaves it."""
    info = f"fairgate_demo-{version}.dist-info"
    files = {f"fairgate_demo/{name}": content for name, content in files.items()}
    files[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: fairgate-demo\nVersion: {version}\n".encode()
    lines = []
    for name, content in files.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_bytes(content)
        known = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={known},{len(content)}\n")
    (site / info / "RECORD").write_text("".join(lines), encoding="utf-8")
    return site


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, and one that Python imports from."""
    (tmp_path / "work").mkdir()
    (tmp_path / "site").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    return tmp_path / "site"


def test_without_the_package_the_command_says_what_to_install(elsewhere: Path) -> None:
    result = CliRunner().invoke(app, ["demo"])
    assert result.exit_code == 4
    assert "make data" in result.output
    assert "pip install CLONE/demo" in result.output
    assert not list(Path().iterdir())


def test_the_files_are_unpacked_and_found_again(elsewhere: Path) -> None:
    installed(elsewhere, {SUITE: b"schema: 1\n", "datasets/a/v1/manifest.json": b"{}"})
    for _ in range(2):
        folder = demo_folder(Path("fairgate-demo"))
        assert (folder / SUITE).read_bytes() == b"schema: 1\n"
        assert (folder / "datasets" / "a" / "v1" / "manifest.json").read_bytes() == b"{}"


def test_a_suite_that_its_reader_changed_is_not_replaced(elsewhere: Path) -> None:
    installed(elsewhere, {SUITE: b"schema: 1\n"})
    own = demo_folder(Path("here")) / SUITE
    own.write_bytes(b"schema: 1  # and a bound of mine\n")
    with pytest.raises(DatasetError, match="name a new folder: --into"):
        demo_folder(Path("here"))
    assert b"of mine" in own.read_bytes()


@pytest.mark.parametrize("link", ["fairgate-demo", "fairgate-demo/fairness_suites"])
def test_nothing_is_written_through_a_link_that_a_stranger_left(elsewhere: Path, link: str, tmp_path: Path) -> None:
    installed(elsewhere, {SUITE: b"schema: 1\n"})
    (tmp_path / "other").mkdir()
    Path(link).parent.mkdir(exist_ok=True)
    Path(link).symlink_to(tmp_path / "other")
    with pytest.raises(DatasetError, match="remove the link, or name a new folder: --into"):
        demo_folder(Path("fairgate-demo"))
    assert list((tmp_path / "other").iterdir()) == []


@pytest.mark.parametrize("content", [b"schema: 2\n", None])
def test_a_damaged_package_is_refused(elsewhere: Path, content: bytes | None) -> None:
    site = installed(elsewhere, {SUITE: b"schema: 1\n"})
    damaged = site / "fairgate_demo" / SUITE
    damaged.unlink() if content is None else damaged.write_bytes(content)
    with pytest.raises(DatasetError, match="--force-reinstall"):
        demo_folder(Path("here"))
    assert not (Path("here") / SUITE).exists()


def test_a_package_for_another_fairgate_is_refused(elsewhere: Path) -> None:
    installed(elsewhere, {SUITE: b"schema: 1\n"}, "0.0.1")
    with pytest.raises(DatasetError, match=r"version 0\.0\.1"):
        demo_folder(Path("here"))


@pytest.fixture(scope="module")
def packed() -> Iterator[dict[str, bytes]]:
    """What the build hook puts into the wheel, by name. hatchling itself is not installed here."""
    interface = ModuleType("hatchling.builders.hooks.plugin.interface")
    interface.BuildHookInterface = type("BuildHookInterface", (), {"__class_getitem__": classmethod(lambda c, _: c)})  # type: ignore[attr-defined]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, interface.__name__, interface)
        found = importlib.util.spec_from_file_location("demo_hook", ROOT / "demo" / "hatch_build.py")
        assert found is not None
        assert found.loader is not None
        hook = importlib.util.module_from_spec(found)
        found.loader.exec_module(hook)
    made, data = hook.DemoFiles(), SimpleNamespace(build={})
    made.root = str(ROOT / "demo")
    made.initialize("standard", data.build)
    ((staged, package),) = data.build["force_include"].items()
    assert package == "fairgate_demo"
    yield {path.relative_to(staged).as_posix(): path.read_bytes() for path in Path(staged).rglob("*") if path.is_file()}
    made.finalize("standard", data.build, "")


def test_the_package_holds_what_a_clone_judges_and_stays_under_15_mb(packed: dict[str, bytes]) -> None:
    own = {"README.md": "demo/README.md", "pytest.ini": "demo/pytest.ini"}
    tracked = [name for name in packed if name.startswith(("build/", "datasets/"))]
    assert {name.rpartition("/")[0] for name in tracked} == {
        "datasets/occupations/v1",
        *(f"build/portraits/checkpoints/{name}" for name in ("base", "tuned", "biased")),
    }
    for name in [SUITE, *own, *(tracked if (ROOT / "datasets").is_dir() and (ROOT / "build").is_dir() else [])]:
        assert packed[name] == (ROOT / own.get(name, name)).read_bytes(), name
    assert sum(map(len, packed.values())) < 15 << 20
    assert "datasets/occupations" in packed["README.md"].decode()


def test_every_file_that_the_page_of_the_demonstration_names_is_in_the_package(packed: dict[str, bytes]) -> None:
    page = packed["README.md"].decode()
    named = [line.split("`")[1] for line in page.splitlines() if line.startswith("| `")]
    assert len(named) == 5
    for name in named:
        assert any(file.startswith(name) for file in packed), name
    manifest = json.loads(packed["datasets/occupations/v1/manifest.json"])
    assert f"{manifest['n_rows']:,} portraits in {manifest['n_sets']:,} counterfactual sets" in page


@pytest.mark.nightly
def test_the_demonstration_passes_in_an_empty_folder(
    packed: dict[str, bytes], elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    site = installed(elsewhere, packed)
    result = CliRunner().invoke(app, ["demo", "--mlflow", "off"])
    assert result.exit_code == 0, result.output
    assert "base and tuned passed, biased failed" in result.output
    assert (Path("fairgate-demo") / "fairness-report" / "biased" / "report.html").is_file()
    shutil.rmtree(site)
