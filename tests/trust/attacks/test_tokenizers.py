"""A change of the tokenizer or the preprocessing is named, and does not make a more biased checkpoint pass."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from attack_world import Judged, Repository
from nightly import some
from toy_repository import SUITE, Toy

from fairgate import gate
from fairgate.ground.errors import ModelError
from fairgate.models.family import FileFamily
from fairgate.models.registry import FAMILIES
from fairgate.models.scores import PrecomputedScores
from fairgate.probes import write_scores
from fairgate.records import RunRecord
from fairgate.reports import write_results
from fairgate.suites import resolve

WRONG = ("line", "cook", "server", "nurse", "pharmacist")
"""Every word of a wrong label: read as nonsense, no wrong label is ever as probable as the right one."""


def edit(path: Path, change: Any) -> None:
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    path.write_text(json.dumps(content), encoding="utf-8")


def numbered(**ids: int) -> Any:
    return lambda tokenizer: tokenizer["model"]["vocab"].update(ids)


def proposed(repository: Repository, name: str, file: str, change: Any) -> Judged:
    """A pull request whose checkpoint is one of the shipped ones with an edited file."""
    repository.branch()
    edit(repository.use(name) / file, change)
    repository.push("a checkpoint")
    return repository.judge()


def test_wrong_labels_that_become_one_token_give_no_verdict(team_repo: Repository) -> None:
    judged = proposed(team_repo, "biased", "tokenizer.json", numbered(**dict.fromkeys(WRONG, 3)))
    assert (judged.record.exit_code, judged.verdict) == (3, "error"), judged.log
    assert judged.code != 0
    assert "'nurse' and 'pharmacist' as the same text" in judged.record.checks[0].reason
    assert "nurse" in judged.comment


def nonsense(tokenizer: Any) -> None:
    """Different tokens that the checkpoint was hardly shown for each wrong label."""
    vocabulary = tokenizer["model"]["vocab"]
    for word, other in zip(WRONG, ("an", "of", "image", "tan-skinned", "picture"), strict=True):
        vocabulary[word], vocabulary[other] = vocabulary[other], vocabulary[word]


def normalised(tokenizer: Any) -> None:
    """The vocabulary is left alone: a normaliser replaces the wrong labels."""
    swaps = [
        {"type": "Replace", "pattern": {"String": word}, "content": other}
        for word, other in zip(WRONG[2:], ("an image", "tan-skinned", "an an"), strict=True)
    ]
    tokenizer["normalizer"] = {"type": "Sequence", "normalizers": [tokenizer["normalizer"], *swaps]}


@pytest.mark.parametrize("change", some([nonsense, normalised], few=1))
def test_a_biased_checkpoint_with_an_edited_tokenizer_fails_as_it_would_without(
    team_repo: Repository, change: Any
) -> None:
    judged = proposed(team_repo, "biased", "tokenizer.json", change)
    assert judged.code == 1, judged.log
    assert any("doctor" in item for item in judged.failed)
    assert "the tokenizer differs from the baseline's" in judged.notices
    assert "tokenizer differs" in judged.comment


def test_padding_on_the_other_side_is_named_and_the_biased_checkpoint_fails(team_repo: Repository) -> None:
    """Words on the left of the padding are at positions that the baseline's prompts never reach."""

    def left(tokenizer: Any) -> None:
        tokenizer["padding"] = {"strategy": "BatchLongest", "direction": "Left", "pad_id": 0, "pad_token": "[PAD]"}
        tokenizer["padding"] |= {"pad_type_id": 0, "pad_to_multiple_of": None}

    judged = proposed(team_repo, "biased", "tokenizer.json", left)
    assert judged.code == 1, judged.log
    assert "the tokenizer differs from the baseline's" in judged.notices
    assert any("doctor" in item for item in judged.failed)


def test_wrong_labels_that_become_tokens_under_the_names_of_notes_do_not_pass(team_repo: Repository) -> None:
    """A word is a token under any key of `extra_special_tokens`, also one that is a note elsewhere."""
    edit(team_repo.use("base") / "tokenizer_config.json", lambda config: config.update(extra_special_tokens={}))
    team_repo.update_baseline()
    team_repo.push("a baseline", branch="main")
    team_repo.branch("change")
    folder = team_repo.use("biased")
    tokens = dict(zip(("version", "backend", "is_local", "chat_template", "processor_class"), WRONG, strict=True))
    spaced = {key: f" {word}" for key, word in tokens.items()}
    edit(folder / "tokenizer_config.json", lambda config: config.update(extra_special_tokens=spaced))
    vocabulary = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    add_tokens(folder, [vocabulary[word] for word in ("an", "of", "image", "tan-skinned", "picture")])
    team_repo.push("five more tokens")
    judged = team_repo.judge()
    assert judged.code == 1, judged.log
    assert "the tokenizer differs from the baseline's" in judged.notices
    assert any("doctor" in item for item in judged.failed)


def test_a_config_that_makes_another_class_read_the_same_files_is_named(team_repo: Repository) -> None:
    """transformers takes the tokenizer's class from config.json where tokenizer_config.json names none."""

    def with_two_more_tokens(name: str, scale: float) -> Path:
        folder = team_repo.use(name)
        edit(folder / "tokenizer_config.json", lambda config: config.pop("tokenizer_class"))
        edit(folder / "tokenizer.json", numbered(**{"[CLS]": 36, "[SEP]": 37}))
        add_tokens(folder, [2, 35], scale)  # as [BOS] and [EOS], more or less
        return folder

    with_two_more_tokens("base", 1.0)
    team_repo.update_baseline()
    team_repo.push("a baseline", branch="main")
    team_repo.branch("change")
    folder = with_two_more_tokens("biased", 1.2)
    (folder / "config.json").write_text(json.dumps({"model_type": "bert"}), encoding="utf-8")
    team_repo.push("a config")
    judged = team_repo.judge()
    assert judged.code == 1, judged.log
    assert "the tokenizer differs from the baseline's" in judged.notices
    assert any("doctor" in item for item in judged.failed)


def add_tokens(folder: Path, alike: list[int], scale: float = 1.0) -> None:
    """More rows of the token embedding, made of others."""
    import torch
    from safetensors.torch import load_file, save_file

    state = load_file(folder / "open_clip_model.safetensors")
    rows = torch.cat([state["token_embedding.weight"], scale * state["token_embedding.weight"][alike]])
    save_file({**state, "token_embedding.weight": rows}, folder / "open_clip_model.safetensors")
    edit(folder / "open_clip_config.json", lambda one: one["model_cfg"]["text_cfg"].update(vocab_size=len(rows)))


def test_a_vocabulary_that_does_not_fit_never_passes_a_comparison(team_repo: Repository) -> None:
    def longer(config: Any) -> None:
        config["model_cfg"]["text_cfg"]["context_length"] = 12

    team_repo.branch()
    folder = team_repo.use("biased")
    edit(folder / "tokenizer.json", nonsense)
    edit(folder / "open_clip_config.json", longer)
    shorten_positions(folder / "open_clip_model.safetensors", 12)
    team_repo.push("a shorter context")
    judged = team_repo.judge()
    assert judged.code == 1, judged.log
    assert all(check.verdict != "pass" for check in judged.record.checks if check.rule == "no_worse_than")
    assert "could not be judged with" in judged.notices


def shorten_positions(path: Path, length: int) -> None:
    import torch
    from safetensors.torch import load_file, save_file

    state = load_file(path)
    state["positional_embedding"] = state["positional_embedding"][:length].clone()
    if "attn_mask" in state:
        state["attn_mask"] = torch.clone(state["attn_mask"][:length, :length])
    save_file(state, path)


def test_a_biased_checkpoint_with_other_preprocessing_fails_as_it_would_without(team_repo: Repository) -> None:
    """Pictures that come out almost flat spread no P(true)."""
    judged = proposed(
        team_repo,
        "biased",
        "open_clip_config.json",
        lambda config: config["preprocess_cfg"].update(std=[5.0, 5.0, 5.0]),
    )
    assert judged.code == 1, judged.log
    assert any("doctor" in item for item in judged.failed)
    assert "the preprocessing differs from the baseline's" in judged.notices


def test_where_tokenizer_and_preprocessing_change_each_swap_is_judged(team_repo: Repository) -> None:
    team_repo.branch()
    folder = team_repo.use("biased")
    edit(folder / "tokenizer.json", nonsense)
    edit(folder / "open_clip_config.json", lambda config: config["preprocess_cfg"].update(std=[5.0, 5.0, 5.0]))
    team_repo.push("both")
    judged = team_repo.judge()
    assert judged.code == 1, judged.log
    assert any("doctor" in item for item in judged.failed)
    assert "the tokenizer and preprocessing differ from the baseline's" in judged.notices
    assert "with both and with each alone" in judged.comment


def test_the_same_tokenizer_saved_otherwise_is_not_a_change(team_repo: Repository) -> None:
    def resaved(tokenizer: Any) -> None:
        tokenizer["padding"] = {"strategy": "BatchLongest", "direction": "Right", "pad_id": 0, "pad_token": "[PAD]"}
        tokenizer["padding"] |= {"pad_type_id": 0, "pad_to_multiple_of": None}
        tokenizer["added_tokens"].reverse()

    team_repo.branch()
    folder = team_repo.use("tuned")
    edit(folder / "tokenizer.json", resaved)
    (folder / "special_tokens_map.json").write_text(json.dumps({"pad_token": "[PAD]", "unk_token": "[UNK]"}))
    team_repo.push("saved by an older version")
    judged = team_repo.judge()
    assert judged.code == 0, judged.log
    assert "tokenizer" not in judged.notices


def test_a_harmless_change_of_preprocessing_passes_and_needs_an_approval(team_repo: Repository) -> None:
    judged = proposed(
        team_repo,
        "tuned",
        "open_clip_config.json",
        lambda config: config["preprocess_cfg"].update({"std": [0.505, 0.505, 0.505]}),
    )
    assert judged.code == 10, judged.log
    assert "the preprocessing differs from the baseline's: every check was also judged with" in judged.notices
    assert "preprocessing differs" in judged.comment


def test_a_new_tokenizer_fails_with_a_way_forward(team_repo: Repository) -> None:
    """The honest case: weights that were trained for other tokens. Red, and the words say how it is merged."""
    import torch
    from safetensors.torch import load_file, save_file

    team_repo.branch()
    folder = team_repo.use("tuned")
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    words = [word for word in vocabulary if not word.startswith("[")]
    turned = dict(zip(words, words[7:] + words[:7], strict=True))
    state = load_file(folder / "open_clip_model.safetensors")
    rows = state["token_embedding.weight"]
    moved = torch.clone(rows)
    for word, other in turned.items():
        moved[vocabulary[other]] = rows[vocabulary[word]]
    state["token_embedding.weight"] = moved
    save_file(state, folder / "open_clip_model.safetensors")
    tokenizer["model"]["vocab"] = {word: vocabulary[turned.get(word, word)] for word in vocabulary}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    team_repo.push("a new tokenizer, and weights that were trained with it")
    judged = team_repo.judge()
    assert judged.code == 1, judged.log
    assert "merge waivers for them first" in judged.comment
    failed = [check for check in judged.record.checks if check.verdict == "fail"]
    assert failed
    assert all("with the baseline's tokenizer (with its own: pass)" in check.reason for check in failed)


@dataclass(frozen=True)
class PluginModel(PrecomputedScores):
    """A plugin's model that reads texts by a tokenizer of its own."""

    precision: str = field(default="fp32", kw_only=True)


@dataclass(frozen=True)
class Rereading(PluginModel):
    """One that can be given another one's tokens."""

    biased: Any = None

    def reading_as(self, other: Any, *, tokenizer: bool, preprocessing: bool) -> Any:
        if other.tokenizer == "of no use":
            raise ModelError("it gives other tokens.", where=other.uri, remedy="none")
        assert (tokenizer, preprocessing) == (True, False)
        return self.biased

    def embeds_alike(self, other: Any) -> bool:
        return other is not self.biased


class PluginFamily(FileFamily):
    """`mine:TABLE.csv`, next to `TABLE.tokenizer`."""

    scheme: ClassVar[str] = "mine"
    forms: ClassVar[tuple[str, ...]] = ("mine:TABLE.csv",)
    capabilities: ClassVar[Any] = PrecomputedScores.capabilities
    rereads: ClassVar[bool] = False

    def open(self, request: Any) -> PluginModel:
        def model(kind: type[PluginModel], table: str, **more: Any) -> PluginModel:
            found = PrecomputedScores.read(replace(request, address=f"{table}?values=logit"))
            facts = {name: getattr(found, name) for name in ("fingerprint", "values", "logit_scale", "table")}
            return kind(uri=request.uri, **facts, tokenizer=tokenizer, preprocessing="pixels", **more)

        path = request.base / request.address
        tokenizer = path.with_suffix(".tokenizer").read_text(encoding="utf-8") or None
        if not self.rereads:
            return model(PluginModel, request.address)
        return model(Rereading, request.address, biased=model(PluginModel, "biased.csv"))


@pytest.fixture
def plugin(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> type[PluginFamily]:
    """The family, known as if its package were installed; both models read by one tokenizer."""
    monkeypatch.setitem(FAMILIES._found, "mine", PluginFamily())
    for name in ("base", "tuned"):
        (toy.root / f"{name}.tokenizer").write_text("one", encoding="utf-8")
    return PluginFamily


def judged_by_a_plugin(toy: Toy, model: str, baseline: str) -> RunRecord:
    toy.write_suite(SUITE)
    prepared = gate.prepare("jobs", toy.root)
    typed: dict[str, str | None] = {"model": model, "baseline": baseline, "mlflow": "off", "cache": "off"}
    settings = resolve(prepared.loaded.suite, typed, environment={})
    evaluation = gate.evaluate(prepared, settings, command="x")
    if baseline == "none":
        write_results(evaluation.record, toy.root / "before")
        write_scores(toy.root / "before" / "scores.parquet", prepared.dataset.index, evaluation.scores)
    return evaluation.record


@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.parametrize(("before", "now"), some([("one", "two"), ("one", ""), ("", "two")], few=1))
def test_another_tokenizer_of_a_plugins_model_never_passes_a_comparison(
    toy: Toy, plugin: type[PluginFamily], saved: bool, before: str, now: str
) -> None:
    (toy.root / "base.tokenizer").write_text(before, encoding="utf-8")
    (toy.root / "tuned.tokenizer").write_text(before, encoding="utf-8")
    if saved:
        judged_by_a_plugin(toy, "mine:base.csv", "none")
    baseline = "file:before" if saved else "model:mine:base.csv"
    alike = judged_by_a_plugin(toy, "mine:tuned.csv", baseline)
    assert (alike.verdict, alike.notices) == ("pass", [])
    (toy.root / "tuned.tokenizer").write_text(now, encoding="utf-8")
    record = judged_by_a_plugin(toy, "mine:tuned.csv", baseline)
    verdicts = {check.rule: check.verdict for check in record.checks}
    assert verdicts == {"at_least": "pass", "at_most": "pass", "no_worse_than": "inconclusive"}
    (notice,) = record.notices
    assert "the tokenizer differs from the baseline's" in notice
    assert "models of 'mine:' have no method `reading_as`" in notice


def test_a_plugins_model_that_can_read_as_its_baseline_is_judged_so_too(
    toy: Toy, plugin: type[PluginFamily], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugin, "rereads", True)
    (toy.root / "tuned.tokenizer").write_text("two", encoding="utf-8")
    record = judged_by_a_plugin(toy, "mine:tuned.csv", "model:mine:base.csv")
    (gap,) = [check for check in record.checks if check.item == "gaps[doctor]"]
    assert (gap.verdict, gap.worst_group) == ("fail", "dark × female")
    assert gap.reason.startswith("with the baseline's tokenizer (with its own: pass)")
    (toy.root / "base.tokenizer").write_text("of no use", encoding="utf-8")
    record = judged_by_a_plugin(toy, "mine:tuned.csv", "model:mine:base.csv")
    assert {check.verdict for check in record.checks if check.rule == "no_worse_than"} == {"inconclusive"}
    assert "could not be judged with (it gives other tokens)" in record.notices[0]
