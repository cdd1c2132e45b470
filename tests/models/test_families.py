"""Families of models: one class each, found by the scheme of a URI, here or in an installed package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, get_args

import numpy as np
import pytest
from model_world import Pictures

from fairgate.ground.errors import FairgateError, ModelError
from fairgate.models import Capability, contract, indistinct, local_paths, open_scorer, register, require_capability
from fairgate.models.registry import FAMILIES

PLUGIN = """
import subprocess
import sys
from pathlib import Path

class Family:
    scheme = "SCHEME"
    forms = ("SCHEME:FILE",)
    capabilities = frozenset({"log_probabilities"})

    def local_path(self, address):
        return Path(address)

    def open(self, request):
        return request
"""


@pytest.fixture(autouse=True)
def _registry_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    assert FAMILIES.own(), "a module that is imported registers its family once"
    monkeypatch.setattr(FAMILIES, "_found", dict(FAMILIES._found))
    monkeypatch.setattr(FAMILIES, "_entries", None)


def install(folder: Path, group: str, name: str, content: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package `team_models` with one entry point, on the path as pip would leave it."""
    (folder / f"{name}_plugin.py").write_text(content.replace("SCHEME", name))
    metadata = folder / f"team_{name}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: team-{name}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[fairgate.{group}]\n{name} = {name}_plugin:Family\n")
    monkeypatch.syspath_prepend(str(folder))


def test_a_new_family_is_one_registered_class(pictures: Pictures) -> None:
    @register
    class Mine:
        scheme: ClassVar[str] = "mine"
        forms: ClassVar[tuple[str, ...]] = ("mine:NAME",)
        capabilities: ClassVar[frozenset[str]] = frozenset({"similarity"})

        def local_path(self, address: str) -> Path | None:
            return Path(address)

        def open(self, request: Any) -> Any:
            return request

    request = open_scorer("mine:a:b?c=d", pictures, cache=None, base=Path("here"), batch_size=3)
    assert (request.address, request.base, request.batch_size) == ("a:b?c=d", Path("here"), 3)  # type: ignore[attr-defined]


def test_an_installed_package_adds_a_family_and_is_named(
    pictures: Pictures, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "models", "teammodels", PLUGIN, monkeypatch)
    assert local_paths("teammodels:a/b.bin") == (Path("a/b.bin"),)
    assert open_scorer("teammodels:a", pictures, cache=None).address == "a"  # type: ignore[attr-defined]
    assert FAMILIES.packages_of(["teammodels", "hf"])["team-teammodels"].startswith("1.0 sha256:")
    assert {scheme: family.scheme for scheme, family in FAMILIES.items()} == {scheme: scheme for scheme in FAMILIES}
    with pytest.raises(ModelError) as caught:
        open_scorer("nobody:a", pictures, cache=None)
    assert "teammodels:" in str(caught.value.remedy)


def test_no_other_group_of_entry_points_adds_models(
    pictures: Pictures, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record names the packages of `fairgate.models`: from elsewhere, unnamed code would answer."""
    install(tmp_path, "generators", "teamgenerators", PLUGIN, monkeypatch)
    with pytest.raises(ModelError, match="is not a model URI"):
        open_scorer("teamgenerators:a", pictures, cache=None)


FROM_ITS_FILE = """
import importlib, os, sys
from fairgate.models.registry import FAMILIES as registry
modules = set(registry._built_in.values())
assert not modules & sys.modules.keys(), modules & sys.modules.keys()
for module in sorted(modules):
    if os.fork() == 0:
        importlib.import_module(module)
        own = {name for name, registers in registry._built_in.items() if registers == module}
        os._exit(0 if own and own <= registry._found.keys() else print(module, own, registry._found) or 1)
    assert os.wait()[1] == 0, module
"""


def test_a_family_registers_itself_from_its_file_and_the_registry_imports_none() -> None:
    """As metrics and recipes do: a registry that imports families cannot be imported by one."""
    subprocess.run([sys.executable, "-c", FROM_ITS_FILE], check=True)


@pytest.mark.parametrize("capability", get_args(Capability))
def test_every_capability_has_a_contract_with_a_method_of_its_name(capability: str) -> None:
    contracts = [one for name, one in vars(contract).items() if name.endswith("Model")]
    assert any(hasattr(one, capability) for one in contracts)


def test_a_family_that_is_not_one_is_refused_with_its_package(
    pictures: Pictures, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "models", "odd", PLUGIN.replace("log_probabilities", "guess"), monkeypatch)
    with pytest.raises(FairgateError, match=r"team-odd.*'guess' is no capability") as caught:
        open_scorer("odd:a", pictures, cache=None)
    assert "uninstall" in str(caught.value.remedy)


def test_the_packages_own_schemes_cannot_be_taken(
    local_dir: Path, pictures: Pictures, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "models", "open_clip", PLUGIN, monkeypatch)
    opened = open_scorer(f"open_clip:local-dir:{local_dir}", pictures, cache=None)
    assert opened.preparation == "open_clip/1"
    with pytest.raises(FairgateError, match="open_clip"):
        register(type("Mine", (), {"scheme": "open_clip", "__module__": __name__}))


def test_a_model_that_lacks_a_capability_is_refused_by_its_name() -> None:
    model = SimpleNamespace(uri="mine:a", capabilities=frozenset({"log_probabilities"}))
    require_capability(model, "log_probabilities", "probe 'jobs'")
    with pytest.raises(ModelError, match="lacks the capability 'similarity'") as caught:
        require_capability(model, "similarity", "probe 'pilots'")
    assert caught.value.where == "probe 'pilots'"
    assert "judge a model that has it" in str(caught.value.remedy)


def test_texts_that_get_equal_answers_are_one_text_to_a_model_that_does_not_say() -> None:
    model = SimpleNamespace(
        capabilities=frozenset({"similarity"}),
        similarity=lambda ensembles: np.array([[len(prompts[0]) for prompts in ensembles]] * 3, dtype=float),
    )
    assert indistinct(model, [["chef"], ["nurse"], ["cook"]]) == [(0, 2)]
    assert indistinct(SimpleNamespace(capabilities=frozenset()), [["chef"], ["cook"]]) == []


def test_the_family_that_the_docs_show_is_the_one_that_runs() -> None:
    root = Path(__file__).parents[2]
    page = (root / "docs" / "use" / "extending.md").read_text()
    shown = page.partition("fairgate/models/hf.py HuggingFace -->\n```python\n")[2].partition("```")[0]
    assert "class HuggingFace" in shown
    assert shown in (root / "fairgate" / "models" / "hf.py").read_text()
