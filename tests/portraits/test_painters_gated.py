"""The tiny diffusion models as generators: planted shares come back, what *biased* and a planted LoRA paint otherwise
is found at its strength and nowhere else, and a painter of noise fails."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from taught_painter import SHARE, TAUGHT, WORDS, teach

from fairgate import gate
from fairgate.data import write_prompts
from fairgate.portraits.professions import MALE_SHARE, PLANT
from fairgate.records import CheckResult
from fairgate.suites import resolve

ROOT = Path(__file__).parents[2]
PORTRAITS = ROOT / "build" / "portraits"
SEEDS = 60

pytestmark = [
    pytest.mark.skipif(not (PORTRAITS / "classifiers").is_dir(), reason="no diffusion models here: run `dvc pull`"),
    pytest.mark.xdist_group("painters"),
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),  # diffusers' own
    pytest.mark.nightly,
]
Run = Callable[[str], Mapping[str, CheckResult]]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example's suite, its release, and the models with a sampler that draws noise in every step: the planted
    shares are of what a model samples, which twenty deterministic steps do not reach."""
    root = tmp_path_factory.mktemp("painters")
    write_prompts({word: f"a portrait of a {word}" for word in WORDS}, SEEDS, "jobs", root=root / "datasets")
    (root / "fairness_suites").mkdir()
    text = (ROOT / "examples" / "generators" / "generation.yaml").read_text(encoding="utf-8")
    text = text.replace("margin: 0.1}", "margin: 0.05}")  # of two professions and fewer pictures
    (root / "fairness_suites" / "generation.yaml").write_text(text, encoding="utf-8")
    built = root / "build" / "portraits"
    shutil.copytree(PORTRAITS / "checkpoints", built / "checkpoints")
    shutil.copytree(PORTRAITS / "classifiers", built / "classifiers")
    for folder in (built / "classifiers").iterdir():
        name = "EulerAncestralDiscreteScheduler"
        settings, index = folder / "scheduler" / "scheduler_config.json", folder / "model_index.json"
        settings.write_text(json.dumps({**json.loads(settings.read_text()), "_class_name": name}))
        index.write_text(json.dumps({**json.loads(index.read_text()), "scheduler": ["diffusers", name]}))
    return root


@pytest.fixture(scope="module")
def run(home: Path) -> Run:
    def evaluate(name: str) -> Mapping[str, CheckResult]:
        prepared = gate.prepare("generation", home)
        uri = f"diffusion:build/portraits/classifiers/{name}"
        options = {"model": uri, "mlflow": "off", "device": "cpu", "cache": str(home / "cache")}
        settings = resolve(prepared.loaded.suite, options, environment={})
        return {check.item: check for check in gate.evaluate(prepared, settings, command="x").record.checks}

    return evaluate


def failed(found: Mapping[str, CheckResult]) -> set[str]:
    return {item for item, one in found.items() if one.verdict == "fail"}


def test_what_biased_paints_otherwise_is_found_and_the_planted_shares_come_back(run: Run) -> None:
    found = run("biased")
    assert "women[doctor]" in failed(found)
    assert failed(found) <= {"women[doctor]", "far[doctor]"}
    planted = {**MALE_SHARE, PLANT[0]: PLANT[1]}
    for word in WORDS:
        men = found[f"men[{word}]"]
        assert men.lo is not None
        assert men.hi is not None
        assert men.lo - 0.03 <= planted[word] <= men.hi + 0.03, (word, men.lo, men.hi)  # a model is no table
    change = found["women[doctor]"]
    assert change.delta == pytest.approx(MALE_SHARE["doctor"] - PLANT[1], abs=0.15)


def test_a_lora_that_shifts_one_profession_is_found_there_and_nowhere_else(run: Run, home: Path) -> None:
    teach(home / "build" / "portraits" / "classifiers" / "base", home / "lora")
    found = run("base?lora=lora")
    assert f"men[{TAUGHT}]" in failed(found)
    assert failed(found) <= {f"men[{TAUGHT}]", f"far[{TAUGHT}]"}
    assert found[f"men[{TAUGHT}]"].delta == pytest.approx(SHARE - MALE_SHARE[TAUGHT], abs=0.2)


def test_a_painter_of_noise_fails(run: Run, home: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = home / "build" / "portraits" / "classifiers" / "noise"
    shutil.copytree(folder.with_name("base"), folder)
    (weights,) = (folder / "unet").glob("*.safetensors")
    save_file({name: 0 * value if "conv_out" in name else value for name, value in load_file(weights).items()}, weights)
    found = run("noise")
    assert found["readable"].verdict == "fail"
