"""`fairgate portraits train` of generator, editor and stand-ins, and `generate`: a few steps make folders that open."""

from __future__ import annotations

from functools import partial
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

from fairgate.interfaces.cli.main import app
from fairgate.models.checkpoints import encoder
from fairgate.models.generation import Sampling, open_model
from fairgate.portraits import editor, generator, generator_training, standin_training
from fairgate.portraits.generator_training import GeneratorPlan
from fairgate.portraits.pool import draw_sets
from fairgate.portraits.standin_data import draw_portraits

SHORT = GeneratorPlan(seed=1, steps=2, batch=4)


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["portraits", *words])
    return result.exit_code, result.output


@pytest.fixture(scope="module")
def small() -> pytest.MonkeyPatch:
    """The training at a size that takes seconds."""
    with pytest.MonkeyPatch.context() as patch:
        sets, portraits = draw_sets(1, 1), draw_portraits(1, 1)
        for module in (generator, editor):
            patch.setattr(module, "PLAN", SHORT)
            patch.setattr(module, "draw_sets", lambda: sets)
        patch.setattr(generator, "train_vae", partial(generator_training.train_vae, steps=2))
        patch.setattr(standin_training, "draw_portraits", lambda: portraits)
        patch.setattr(standin_training, "PAINTED", 2)
        patch.setattr(standin_training, "STEPS", dict.fromkeys(standin_training.STEPS, 3))
        yield patch


@pytest.fixture(scope="module")
def trained(small: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds a generator after two steps."""
    folder = tmp_path_factory.mktemp("trained") / "diffusion"
    code, output = run("train", "generator", "--out", str(folder))
    assert code == 0, output
    assert "vae       step    0" in output
    assert "generator step    0" in output
    assert f"trained generator: {folder}" in output
    return folder


def test_a_trained_generator_paints(trained: Path, tmp_path: Path) -> None:
    how = Sampling(steps=1, guidance=1.0)
    assert open_model("painter", f"hf:{trained}").paint(["a photo of a chef"], [0], how)[0].size == (32, 32)
    out = tmp_path / "sheet.png"
    code, output = run("generate", "--model", str(trained), "--out", str(out), "--seeds", "1", "--steps", "1")
    assert code == 0, output
    with Image.open(out) as sheet:
        assert sheet.size == (64, 64 * 15)


def test_an_editor_and_stand_ins_are_trained_from_it(trained: Path, tmp_path: Path) -> None:
    for name in ("editor", "standins"):
        code, output = run("train", name, "--from", str(trained), "--out", str(tmp_path / name))
        assert code == 0, output
    picture = Image.new("RGB", (32, 32), "pink")
    how = Sampling(steps=1, guidance=2.0)
    (edited,) = open_model("editor", f"hf:{tmp_path / 'editor'}").edit(picture, ["Turn this into a man"], [0], [how])
    assert edited.size == (32, 32)
    asker = open_model("asker", f"portraits:{tmp_path / 'standins'}")
    assert asker.answer([picture], ["Is this image real or fake?"])[0][0] in ("real", "fake")


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (["generator", "--from", "somewhere"], "leave out --from"),
        (["editor"], "give --from build/portraits/diffusion"),
        (["standins", "--from", "nowhere"], "dvc repro train-generator"),
        (["generator", "--strength", "0.2"], "give it to `biased`"),
    ],
)
def test_what_cannot_be_trained_is_refused_with_a_remedy(
    small: pytest.MonkeyPatch, tmp_path: Path, words: list[str], remedy: str
) -> None:
    code, output = run("train", *words, "--out", str(tmp_path / "out"))
    assert code == 4
    assert remedy in output


def test_where_diffusers_is_missing_the_remedy_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.version", missing)
    monkeypatch.setattr(encoder, "_version", encoder._version.__wrapped__)  # without what is cached
    (tmp_path / "model_index.json").write_text("{}")
    for words in (["train", "generator"], ["generate", "--model", str(tmp_path)]):
        code, output = run(*words, "--out", str(tmp_path / "out.png"))
        assert code == 4
        assert "pip install diffusers" in output
