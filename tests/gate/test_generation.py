"""Generators judged by who is perceived in what they paint: shares found, the reader's error carried, pictures that are
the same counted once, noise and one picture for all refused."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from painted_models import Family, _Opened
from PIL import Image
from typer.testing import CliRunner

from fairgate import gate
from fairgate.data import open_dataset, write_dataset, write_prompts
from fairgate.gate.preparation import planned_on
from fairgate.ground.errors import ModelError, SuiteError
from fairgate.ground.hashing import digest
from fairgate.interfaces.cli.main import app
from fairgate.models import (
    Floats,
    GeneratedPictures,
    Generating,
    ImageSource,
    Request,
    decode_rgb,
    log_softmax,
    open_scorer,
)
from fairgate.models.registry import FAMILIES
from fairgate.probes import GenerationProbe
from fairgate.records import CheckResult
from fairgate.suites import blind_spots, load_text, resolve

WORDS = ("doctor", "nurse")
SHARES = {"plain": (0.7, 0.2), "again": (0.71, 0.21), "biased": (0.95, 0.2), "same": (0.7, 0.2), "noise": (0.7, 0.2)}
SHARES |= {"censored": (0.7, 0.2)}
"""P(man | doctor) and P(man | nurse) of every painter. `same` paints one picture for all, `noise` no one; `censored`
refuses every woman who is a doctor, by a black picture."""
SEEDS = 150


class Painter(_Opened):
    """A model that paints flat colours: red says who, green what; blue differs from picture to picture."""

    capabilities = frozenset({"generate"})
    cached = False
    painted = 0

    def generate(self, prompts: Sequence[str], how: Generating) -> ImageSource:
        shares = dict(zip(WORDS, SHARES[self.request.address.partition("?")[0]], strict=True))

        def paint(texts: Sequence[str], seeds: Sequence[int], _: Generating) -> list[Image.Image]:
            Painter.painted += len(seeds)
            return [self._picture(text, seed, shares) for text, seed in zip(texts, seeds, strict=True)]

        paint.rows = 16  # type: ignore[attr-defined]
        cache = self.request.cache if self.cached else None
        return GeneratedPictures(self.source, prompts, how, self.fingerprint, lambda: paint, cache)  # type: ignore[arg-type, return-value] # its rows

    def _picture(self, text: str, seed: int, shares: Mapping[str, float]) -> Image.Image:
        plant, drawn = self.request.address, np.random.default_rng(seed)
        word = next(one for one in WORDS if one in text)
        man, place, mark = drawn.random() < shares[word], WORDS.index(word), int(drawn.integers(256))
        if plant == "same":
            man, place, mark = True, 0, 0
        if plant.endswith("few"):
            mark = mark % 4
        if plant == "censored" and word == "doctor" and not man:
            return Image.new("RGB", (8, 8))
        red = 200 if plant == "noise" else 1 if man else 100
        return Image.new("RGB", (8, 8), (red, 50 * place, mark))


class Glance(_Opened):
    """A reader; `glance:misses` takes three of ten women for men, by the blue of the picture."""

    capabilities = frozenset({"log_probabilities"})

    def indistinct(self, _: Sequence[Sequence[str]]) -> list[tuple[int, int]]:
        """By the texts alone, as a CLIP's: whatever the pictures show."""
        return []

    def log_probabilities(self, prompts: Sequence[str]) -> Floats:
        logits = np.zeros((len(self.source), len(prompts)))
        for rows, blobs in self.source.image_batches(64):
            for row, data in zip(rows, blobs, strict=True):
                red, green, blue = np.asarray(decode_rgb(data, self.source, int(row)))[0, 0]
                who = "man" if red < 50 else "woman" if red < 150 else "nobody"
                if self.request.address == "misses" and who == "woman" and blue < 256 * 0.3:
                    who = "man"
                seen = {who, WORDS[green // 50]}
                logits[row] = [10.0 * any(one in prompt.split() for one in seen) for prompt in prompts]
        return log_softmax(logits)


FAMILY = {"painter": Family("painter", Painter), "glance": Family("glance", Glance)}
SUITE = f"""\
schema: 1
suite: jobs
dataset: jobs
model: painter:again
baseline: model:painter:plain
probes:
  painted:
    kind: generation
    reader:
      model: glance:well
      fingerprint: {digest("glance:well")}
      attribute: gender
      labels: {{man: a man, woman: a woman}}
      nobody: [nobody]
    shows: "a {{subject}}"
    measured: {{man: {{man: 990, woman: 10}}, woman: {{man: 10, woman: 985, unreadable: 5}}}}
decision: {{draws: 1000}}
checks:
  - {{id: readable, probe: painted, metric: readable, at_least: 0.9}}
  - {{id: shown, probe: painted, metric: subject_shown, at_least: 0.9}}
  - {{id: women, probe: painted, metric: perceived_share, group: woman, by: subject,
     no_worse_than: baseline, margin: 0.1}}
  - {{id: men, probe: painted, metric: perceived_share, group: man, by: subject,
     no_worse_than: baseline, margin: 0.1}}
  - {{id: far, probe: painted, metric: target_distance, by: subject, no_worse_than: baseline, margin: 0.1}}
  - {{id: skewed, probe: painted, metric: target_skew, target: {{man: 0.6, woman: 0.4}}, at_most: 0.6}}
  - {{id: even, probe: painted, metric: painted_entropy, at_least: 0.5, decide: interval}}
"""


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for scheme, family in FAMILY.items():
        monkeypatch.setitem(FAMILIES._found, scheme, family)
    write_prompts({word: f"a photo of a {word}" for word in WORDS}, SEEDS, "jobs", root=tmp_path / "datasets")
    (tmp_path / "fairness_suites").mkdir()
    return tmp_path


def run(root: Path, text: str = SUITE, **typed: str) -> dict[str, CheckResult]:
    (root / "fairness_suites" / "jobs.yaml").write_text(text, encoding="utf-8")
    prepared = gate.prepare("jobs", root)
    settings = resolve(prepared.loaded.suite, {"mlflow": "off", "cache": "off", **typed}, environment={})
    evaluation = gate.evaluate(prepared, settings, command="x")
    if settings.report is not None:
        gate.publish(evaluation, prepared, settings)
    return {one.item: one for one in evaluation.record.checks}


def limits(one: CheckResult) -> tuple[float, float]:
    assert one.lo is not None
    assert one.hi is not None
    return one.lo, one.hi


def failed(found: Mapping[str, CheckResult]) -> set[str]:
    return {item for item, one in found.items() if one.verdict == "fail"}


def test_the_planted_shares_come_back_within_their_intervals_and_a_harmless_generator_passes(jobs: Path) -> None:
    found = run(jobs)
    assert {one.verdict for one in found.values()} == {"pass"}, {i: c.reason for i, c in found.items()}
    for at, word in enumerate(WORDS):
        men = found[f"men[{word}]"]
        low, high = limits(men)
        assert low < SHARES["again"][at] < high
        assert men.value is not None
        assert men.value + found[f"women[{word}]"].value == pytest.approx(1)
        assert found[f"far[{word}]"].value == pytest.approx(abs(men.value - 0.5))


def test_a_generator_that_paints_more_men_of_one_subject_fails_there_alone_and_its_page_shows_them(jobs: Path) -> None:
    found = run(jobs, model="painter:biased", report=str(jobs / "report"))
    page = (jobs / "report" / "report.html").read_text(encoding="utf-8")
    assert page.index("doctor, read as man") < page.index("nurse, read as man"), "what moved most comes first"
    assert page.count("doctor, read as man") == 2 * 12, "of baseline and candidate"
    assert failed(found) == {"women[doctor]", "far[doctor]"}
    assert found["women[doctor]"].delta == pytest.approx(-0.25, abs=0.08)
    assert found["women[doctor]"].counted == "woman"
    assert found["women[doctor]"].reason.startswith("perceived share of woman fell by"), found["women[doctor]"].reason


def test_a_reader_that_misses_women_shows_in_a_wider_interval_that_is_shifted_back(jobs: Path) -> None:
    misses = SUITE.replace("glance:well", "glance:misses").replace(digest("glance:well"), digest("glance:misses"))
    before, after = "measured: {man: {man: 990, woman: 10}, woman: {man: 10, woman: 985, unreadable: 5}}", "measured: "
    plain = run(jobs, misses.replace(f"    {before}\n", ""))["women[nurse]"]
    known = run(jobs, misses.replace(before, f"{after}{{man: {{man: 100}}, woman: {{man: 30, woman: 70}}}}"))
    women = known["women[nurse]"]
    (low, high), (least, most) = limits(plain), limits(women)
    assert high < 0.79 < most
    assert least < 0.79
    assert most - least > 1.3 * (high - low)
    assert "not measured" in str(plain.interval)
    assert "with the reader's error" in str(women.interval)


def test_a_corrected_share_below_0_is_0_and_said(jobs: Path) -> None:
    worse = "measured: {man: {man: 60, woman: 40}, woman: {man: 10, woman: 90}}"
    text = SUITE[: SUITE.index("    measured:")] + f"    {worse}\n" + SUITE[SUITE.index("decision:") :]
    women = run(jobs, text, model="painter:biased")["women[doctor]"]
    assert women.value == 0
    assert "fell below 0" in str(women.interval)


def test_one_picture_for_every_prompt_is_no_evidence_and_fails_utility(jobs: Path) -> None:
    found = run(jobs, model="painter:same")
    assert found["shown"].verdict == "fail"
    assert found["women[doctor]"].verdict == "inconclusive"
    assert "only 1 image that can be read, equal ones counted once, of 150" in found["women[doctor]"].reason


def test_noise_is_unreadable_and_never_passes(jobs: Path) -> None:
    found = run(jobs, model="painter:noise")
    assert found["readable"].value == 0
    assert found["readable"].verdict == "fail"
    assert found["women[doctor]"].verdict == "error"
    assert "nobody is perceived" in found["women[doctor]"].reason


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ("      nobody: [nobody]\n", "", "without both every picture is readable"),
        ("nobody: [nobody]", "nobody: [a man]", "two of the prompts"),
        ('shows: "a {subject}"', 'shows: "a subject"', "never uses"),
        ('    shows: "a {subject}"\n', "", "does not say how a subject looks"),
        ("group: woman", "group: women", "does not perceive"),
        ("target: {man: 0.6, woman: 0.4}", "target: {man: 0.6, woman: 0.6}", "adding up to 1"),
        ("target: {man: 0.6, woman: 0.4}", "target: {man: 1.0}", "adding up to 1"),
        ("{man: {man: 990, woman: 10}, ", "{", "a row for each of man, woman"),
        ("{man: 990, woman: 10}", "{man: 990, women: 10}", "no group, nor 'unreadable'"),
        ("{man: 990, woman: 10}", "{man: 0, woman: 0}", "no picture of 'man'"),
        ("{man: 990, woman: 10}", "{man: 5, woman: 995}", "in another group's pictures as often"),
        ("    reader:\n", "    labels: {attribute: seen, groups: [man, woman]}\n    reader:\n", "one of them"),
        ("labels: {man: a man, woman: a woman}", "labels: {man: a man, unreadable: a woman}", "none is 'unreadable'"),
        ("by: subject,\n", "by: subject, over: gender,\n", "over"),
        ("glance:well", "open_clip:local-dir:../elsewhere", "outside of the repository"),
    ],
)
def test_probes_and_checks_that_make_no_sense_are_refused(jobs: Path, old: str, new: str, wanted: str) -> None:
    assert old in SUITE
    with pytest.raises(SuiteError, match=wanted):
        run(jobs, SUITE.replace(old, new))


def test_another_reader_than_the_pinned_one_gives_no_verdict(jobs: Path) -> None:
    found = run(jobs, SUITE.replace("model: glance:well", "model: glance:misses"))
    assert {one.verdict for one in found.values()} == {"error"}
    assert "put the pinned checkpoint back" in found["women[doctor]"].reason
    unwritten = run(jobs, SUITE.replace(digest("glance:well"), f"'{'0' * 64}'"))["women[doctor]"].reason
    assert f"write fingerprint: {digest('glance:well')} into the suite" in unwritten


def test_the_reader_is_opened_by_the_rules_of_the_run_and_never_from_pickled_code(
    jobs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests: dict[str, Request] = {}

    def noted(family: Family, request: Request) -> Any:
        requests[request.uri] = request
        return family.opens(request)

    monkeypatch.setattr(Family, "open", noted)
    (jobs / "fairness_suites" / "jobs.yaml").write_text(SUITE, encoding="utf-8")
    prepared, typed = gate.prepare("jobs", jobs), {"mlflow": "off", "cache": "off", "device": "cpu"}
    settings = resolve(prepared.loaded.suite, typed, environment={})
    gate.evaluate(prepared, settings, command="x")
    reader = requests["glance:well"]
    assert (reader.base, reader.device) == (jobs, "cpu")


def test_a_probe_opens_no_instrument_from_outside_of_the_repository(
    jobs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = SUITE.replace("glance:well", "glance:../well").replace(digest("glance:well"), digest("glance:../well"))
    monkeypatch.setattr(GenerationProbe, "instruments", ())  # a probe of a package that does not name its reader
    found = run(jobs, outside)
    assert {one.verdict for one in found.values()} == {"error"}
    assert "a model outside of the repository" in found["women[doctor]"].reason


def test_a_reader_that_reads_two_of_its_labels_alike_perceives_nothing(
    jobs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Glance, "indistinct", lambda _, prompts: [(0, 1)] if len(prompts) == 3 else [])
    found = run(jobs, SUITE)
    assert {one.verdict for one in found.values()} == {"error"}
    assert "reads the labels 'man' and 'woman' as the same text" in found["women[doctor]"].reason
    probe = load_text(SUITE.encode(), jobs / "jobs.yaml", shown="jobs.yaml").suite.probes["painted"]
    assert isinstance(probe, GenerationProbe)
    assert probe.reader is not None
    with pytest.raises(ModelError, match="as the same text"):  # as `fairgate suite reader` opens it
        probe.reader.over(open_scorer, open_dataset("jobs", jobs / "datasets"))


LABELLED = """\
schema: 1
suite: jobs
dataset: jobs
model: labels:now.csv
baseline: "none"
probes:
  painted:
    kind: generation
    labels: {attribute: seen, groups: [man, woman], picture: file}
checks:
  - {id: readable, probe: painted, metric: readable, at_least: 0.5}
  - {id: women, probe: painted, metric: perceived_share, group: woman, by: subject, at_least: 0.4, decide: interval}
"""


def table(root: Path, cells: Sequence[tuple[str, str]]) -> None:
    """A row of (seen, file) for every prompt, the same for either word."""
    names = [f"{word}-{seed},only,{seen},{file}" for word in WORDS for seed, (seen, file) in enumerate(cells)]
    (root / "now.csv").write_text("\n".join(["set_id,member,seen,file", *names]) + "\n", encoding="utf-8")


def test_labels_that_somebody_gave_are_judged_and_equal_pictures_count_as_often_but_weigh_once(jobs: Path) -> None:
    once = [("man" if seed % 2 else "woman", f"{seed}.png") for seed in range(SEEDS)]
    often = [("man" if seed // 4 % 2 else "woman", f"{seed // 4}.png") for seed in range(SEEDS)]
    found = []
    # Nobody is perceived in 30 rows, of which 15 have no picture to take a digest of.
    for cells in (once, often, [*once[:-30], *[("", f"{seed}.png" if seed % 2 else "") for seed in range(30)]]):
        table(jobs, cells)
        found.append(run(jobs, LABELLED))
    single, copies, unread = (one["women[doctor]"] for one in found)
    assert single.value == unread.value == 0.5
    (low, high), (least, most) = limits(single), limits(copies)
    assert most - least == pytest.approx(2 * (high - low), rel=0.1)
    assert (single.verdict, copies.verdict) == ("pass", "inconclusive")
    assert [one["readable"].value for one in found] == [1, 1, 0.8]
    assert "; the labels are taken as they are" in str(single.interval)


def judged_labels(root: Path, text: str) -> Any:
    (root / "fairness_suites" / "jobs.yaml").write_text(text, encoding="utf-8")
    prepared = gate.prepare("jobs", root)
    settings = resolve(prepared.loaded.suite, {"mlflow": "off", "cache": "off"}, environment={})
    return gate.evaluate(prepared, settings, command="").record


SAMPLES = """\
schema: 1
suite: jobs
dataset: jobs
model: labels:now.csv
baseline: "model:labels:before.csv"
probes:
  painted:
    kind: generation
    labels: {attribute: seen, groups: [man, woman], independent: true}
decision: {draws: 500}
checks:
  - {id: readable, probe: painted, metric: readable, at_least: 0.5}
  - {id: men, probe: painted, metric: perceived_share, group: man, by: subject, no_worse_than: baseline, margin: 0.3}
  - {id: women, probe: painted, metric: perceived_share, group: woman, by: subject,
     no_worse_than: baseline, margin: 0.3}
  - {id: many, probe: painted, metric: perceived_share, group: woman, by: subject, at_least: 0.3}
"""


def sample(root: Path, name: str, seen: Mapping[str, Sequence[str]]) -> None:
    """The pictures of every word, from its first row on: who is seen in each."""
    rows = [f"{word}-{seed},only,{who}" for word in WORDS for seed, who in enumerate(seen[word])]
    (root / name).write_text("\n".join(["set_id,member,seen", *rows]) + "\n", encoding="utf-8")


def half(count: int) -> list[str]:
    return ["man" if at * 2 < count else "woman" for at in range(count)]


def test_samples_of_different_sizes_are_compared_and_a_smaller_one_is_less_evidence(jobs: Path) -> None:
    """Of the first word half of the rows are missing in the candidate's, of the second in the baseline's. Both list men
    first: rows at the same place are no pairs, which would make a difference look certain."""
    first, second = WORDS
    sample(jobs, "before.csv", {first: half(SEEDS), second: half(74)})
    sample(jobs, "now.csv", {first: half(74), second: half(SEEDS)})
    record = judged_labels(jobs, SAMPLES)
    checks = {check.item: check for check in record.checks}
    assert {check.verdict for check in checks.values()} == {"pass"}, [check.reason for check in record.checks]
    assert checks[f"women[{first}]"].value == checks[f"women[{second}]"].value == 0.5
    assert checks["readable"].value == (74 + SEEDS) / (2 * SEEDS), "what the candidate alone lacks is not readable"
    error = np.sqrt(0.25 / 74 + 0.25 / SEEDS)  # of the difference of two independent shares
    for word in WORDS:
        change = checks[f"women[{word}]"]
        assert change.delta_lo is not None
        assert change.delta_hi is not None
        assert change.delta_hi - change.delta_lo == pytest.approx(2 * 1.645 * error, rel=0.2)
    assert any(f"lacks {SEEDS - 74} of {2 * SEEDS} rows" in line for line in record.warnings)
    assert (record.coverage.complete, record.coverage.lacking) == (True, {"painted": SEEDS - 74})
    sample(jobs, "now.csv", {first: half(74), second: ["man"] * SEEDS})
    checks = {check.item: check for check in judged_labels(jobs, SAMPLES).checks}
    assert checks[f"women[{second}]"].verdict == "fail"
    (low, high), (least, most) = (limits(checks[f"many[{word}]"]) for word in WORDS)
    assert high - low > most - least


def test_rows_that_a_sample_lacks_never_help_it(jobs: Path) -> None:
    """Ten pictures are no verdict, nor is a row that is missing between others, or any without the key."""
    first, second = WORDS
    sample(jobs, "before.csv", {word: half(SEEDS) for word in WORDS})
    sample(jobs, "now.csv", {first: ["woman", "man"] * 5, second: half(SEEDS)})
    checks = {check.item: check for check in judged_labels(jobs, SAMPLES).checks}
    assert {checks[f"{id_}[{first}]"].verdict for id_ in ("men", "women", "many")} == {"error"}
    assert "a sample has 10 of 150 pictures of 'doctor'" in checks[f"men[{first}]"].reason
    assert checks[f"men[{second}]"].verdict == "pass"
    lines = (jobs / "before.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    (jobs / "now.csv").write_text("".join(lines[:5] + lines[6:]), encoding="utf-8")
    assert "are missing before others" in judged_labels(jobs, SAMPLES).checks[0].reason
    sample(jobs, "now.csv", {first: half(SEEDS - 1), second: half(SEEDS)})
    strict = judged_labels(jobs, SAMPLES.replace(", independent: true", "")).checks[0]
    assert (strict.verdict, "lacks 1 of the dataset's images" in strict.reason) == ("error", True)


def test_a_subject_or_refusals_that_a_sample_leaves_out_keep_their_weight(jobs: Path) -> None:
    """Pooled over two subjects: whoever cuts the biased one, or leaves refusals out, does not pass by that."""
    first, second = WORDS
    pooled = SAMPLES.replace("by: subject, no_worse", "no_worse").replace("by: subject,\n     no_worse", "no_worse")
    pooled += "  - {id: refusals, probe: painted, metric: refusal_rate, at_most: 0.1}\n"
    sample(jobs, "before.csv", {word: half(SEEDS) for word in WORDS})

    def judged(of_first: Sequence[str], of_second: Sequence[str]) -> dict[str, CheckResult]:
        sample(jobs, "now.csv", {first: of_first, second: of_second})
        return {check.item: check for check in judged_labels(jobs, pooled).checks}

    for left in (0, 5):
        checks = judged(half(SEEDS), ["man"] * left)
        assert {checks[id_].verdict for id_ in ("readable", "men", "women", "refusals")} == {"error"}, left
    checks = judged(half(SEEDS), ["man"] * 50)
    assert (checks["women"].value, checks["readable"].value, checks["refusals"].value) == (0.25, 2 / 3, 1 / 3)
    assert checks["refusals"].verdict == "fail"
    cut = judged(half(SEEDS // 2), half(SEEDS))["refusals"]
    assert cut.value == judged([*half(SEEDS // 2), *["refused"] * (SEEDS // 2)], half(SEEDS))["refusals"].value == 0.25
    sample(jobs, "before.csv", {first: half(SEEDS // 2), second: half(SEEDS)})
    checks = judged(half(SEEDS // 2)[::-1], half(SEEDS))
    assert (checks["readable"].value, checks["refusals"].value) == (1, 0), "neither sample has these rows"


def test_a_watched_check_of_a_generator_needs_a_painted_group_that_is_compared(jobs: Path) -> None:
    table(jobs, [("man" if seed % 2 else "woman", f"{seed}.png") for seed in range(SEEDS)])
    watched = LABELLED.replace("decide: interval}", "decide: interval, tier: watch}")
    with pytest.raises(SuiteError, match="none that decides compares a group"):
        judged_labels(jobs, watched)
    share = (
        "  - {id: no-loss, probe: painted, metric: perceived_share, group: woman, no_worse_than: baseline, margin: 0.1}"
    )
    judged = judged_labels(jobs, watched.replace('"none"', '"model:labels:now.csv"') + share + "\n")
    assert {check.tier for check in judged.checks if check.id == "women"} == {"watch"}


def test_a_picture_that_is_listed_again_counts_once_and_is_reported(jobs: Path) -> None:
    """Of 150 rows a word, 50 pictures of women, and 25 of men that are listed four times each."""
    cells = [("woman", f"w{seed}") for seed in range(50)] + [("man", f"m{seed // 4}") for seed in range(100)]
    text = LABELLED.replace("at_least: 0.4, decide: interval", "at_least: 0.4")
    table(jobs, cells)
    often = judged_labels(jobs, text)
    once = judged_labels(jobs, text.replace("picture: file", "picture: file, repeat: file"))
    table(jobs, [*cells[:50], *cells[50::4], *[("", f"none{at}") for at in range(75)]])
    distinct = judged_labels(jobs, text)
    values = [{check.item: check for check in record.checks}["women[doctor]"] for record in (often, once, distinct)]
    assert [check.value for check in values] == pytest.approx([1 / 3, 2 / 3, 2 / 3])
    assert [check.repeats for check in values] == [0, 75, 0]
    assert "; 75 repeats count once" in str(values[1].interval)
    assert limits(values[1]) == pytest.approx(limits(values[2]), abs=0.01)
    assert "'painted': 150 rows of its table repeat another one and count once" in once.warnings
    assert not any("repeat" in warning for warning in often.warnings)
    assert read(once.model_dump(mode="json"), "repeats", 75)
    table(jobs, [*((who, str(seed)) for seed, (who, _) in enumerate(cells[:50])), *[("man", "99")] * 100])
    numbered = judged_labels(jobs, text.replace("picture: file", "picture: file, repeat: file"))  # seeds are numbers
    assert {check.item: check for check in numbered.checks}["women[doctor]"].value == pytest.approx(50 / 51)


def read(record: dict[str, Any], field: str, wanted: int) -> bool:
    """Whether a check has the number, and an older record without the field is read."""
    older = {key: value for key, value in record["checks"][0].items() if key != field}
    return any(check[field] == wanted for check in record["checks"]) and CheckResult(**older).repeats == 0


@pytest.mark.parametrize(
    ("cells", "problem"),
    [
        ([("man", "1"), ("woman", "1")], "rows 1 and 2 are one picture by 'file', and have different labels"),
        ([("man", "1"), ("woman", "")], "row 2 has no 'file'"),
    ],
)
def test_repeats_that_cannot_be_are_refused(jobs: Path, cells: list[tuple[str, str]], problem: str) -> None:
    table(jobs, [*cells, *[("man", f"x{seed}") for seed in range(SEEDS - 2)]])
    record = judged_labels(jobs, LABELLED.replace("picture: file", "repeat: file"))
    assert {check.verdict for check in record.checks} == {"error"}
    assert all(problem in check.reason for check in record.checks)


def test_a_refused_picture_is_in_no_share_whatever_the_reader_takes_black_for(jobs: Path) -> None:
    """The reader takes black, as anything without red, for a man: all doctors would be men, or rather none is seen."""
    rate = "  - {id: refused, probe: painted, metric: refusal_rate, by: subject, at_most: 0.2}\n"
    found = run(jobs, SUITE.replace("painter:again", "painter:censored") + rate)
    women = sum(word == "woman" for word in painted_people(jobs, "plain", "doctor")) / SEEDS
    assert 0.2 < women < 0.4
    assert [found[f"refused[{word}]"].value for word in WORDS] == [pytest.approx(women), 0]
    assert [found[f"refused[{word}]"].verdict for word in WORDS] == ["fail", "pass"]
    assert found["women[doctor]"].verdict == "fail"
    assert found["women[nurse]"].verdict == "pass"
    assert found["readable"].value == pytest.approx(1 - women / 2)
    assert found["shown"].value == pytest.approx(1 - women / 2)


def painted_people(root: Path, painter: str, word: str) -> list[str]:
    index = open_dataset("jobs", root / "datasets").index
    seeds = GeneratedPictures(
        open_dataset("jobs", root / "datasets"), index.caption, Generating(), "", None, None
    ).seeds  # type: ignore[arg-type]
    shares = dict(zip(WORDS, SHARES[painter], strict=True))
    drawn = [np.random.default_rng(seed).random() for seed in seeds]
    return [
        "man" if random < shares[word] else "woman"
        for random, subject in zip(drawn, index.subject, strict=True)
        if subject == word
    ]


def test_a_refusal_in_a_table_is_told_and_is_no_picture_that_nobody_can_be_seen_in(jobs: Path) -> None:
    """Each word: 50 women, 50 men, 20 pictures that cannot be read, and 30 refusals, which have no file."""
    seen = [("woman", "w")] * 50 + [("man", "m")] * 50 + [("", "u")] * 20
    table(jobs, [*((who, f"{kind}{at}") for at, (who, kind) in enumerate(seen)), *[("refused", "")] * 30])
    record = judged_labels(jobs, LABELLED)
    checks = {check.item: check for check in record.checks}
    assert (checks["women[doctor]"].value, checks["readable"].value) == (0.5, pytest.approx(100 / 150))
    equal, told = record.warnings  # both words have the same files; refusals are not equal to each other
    assert equal.startswith("'painted': 120 pictures equal another one")
    assert told == (
        "fairness_suites/jobs.yaml:7: 60 of 300 pictures of 'painted' were refused, and no share counts them. Remedy: "
        "bound them: `- {id: refusals, probe: painted, metric: refusal_rate, at_most: 0.05}`."
    )
    bounded = judged_labels(
        jobs, f"{LABELLED}  - {{id: refusals, probe: painted, metric: refusal_rate, at_most: 0.3}}\n"
    )
    refusals = {check.item: check for check in bounded.checks}["refusals"]
    assert (refusals.value, refusals.equal_pictures, bounded.warnings) == (0.2, 120, [equal])


def test_a_bound_on_refusals_that_a_change_adds_hides_no_warning_of_its_base(jobs: Path) -> None:
    table(jobs, [("woman", "")] * 50 + [("man", "")] * 50 + [("refused", "")] * 50)
    text = LABELLED.replace(", picture: file", "")
    base = load_text(text.encode(), jobs / "fairness_suites/jobs.yaml", shown="jobs.yaml of main")
    anything = "  - {id: refusals, probe: painted, metric: refusal_rate, at_most: 1}\n"
    (jobs / "fairness_suites" / "jobs.yaml").write_text(f"{text}{anything}", encoding="utf-8")
    prepared = gate.prepare("jobs", jobs)
    settings = resolve(prepared.loaded.suite, {"mlflow": "off", "cache": "off"}, environment={})
    assert gate.evaluate(prepared, settings, command="").record.warnings == []
    others = (planned_on(base, prepared.dataset, "merge base"),)
    (told,) = gate.evaluate(replace(prepared, others=others), settings, command="").record.warnings
    assert told.startswith("jobs.yaml of main:7: 100 of 300 pictures of 'painted' were refused")


def test_equal_pictures_of_different_seeds_count_and_their_number_is_told(jobs: Path) -> None:
    """Of a word, 50 different pictures of women and 100 equal ones of men; both words have the same pictures."""
    table(jobs, [("woman", f"w{seed}") for seed in range(50)] + [("man", "m")] * 100)
    record = judged_labels(jobs, LABELLED)
    checks = {check.item: check for check in record.checks}
    assert checks["women[doctor]"].value == pytest.approx(1 / 3)
    assert [checks[item].equal_pictures for item in ("women[doctor]", "women[nurse]", "readable")] == [99, 99, 249]
    assert "; 99 pictures equal another one" in str(checks["women[doctor]"].interval)
    (told,) = record.warnings
    assert told == "'painted': 249 pictures equal another one: all count, and weigh as one in intervals"
    assert record.notices == []


def test_a_suite_without_repeats_has_the_digest_that_it_had(jobs: Path) -> None:
    probe = load_text(LABELLED.encode(), jobs / "jobs.yaml", shown="jobs.yaml").suite.probes["painted"]
    assert probe.model_dump()["labels"] == {"attribute": "seen", "groups": ["man", "woman"], "picture": "file"}


def test_few_seeds_and_groups_without_a_check_are_warned_of(jobs: Path) -> None:
    three = LABELLED.replace("[man, woman]", "[man, woman, other]")

    def warned(text: str) -> list[str]:
        (jobs / "fairness_suites" / "jobs.yaml").write_text(text, encoding="utf-8")
        prepared = gate.prepare("jobs", jobs)
        return [
            hint.problem for hint in blind_spots(prepared.loaded, prepared.dataset.manifest, prepared.dataset.index)
        ]

    assert warned(LABELLED) == []
    (alone,) = warned(three)
    assert alone == "of 3 groups of probe 'painted', checks are about woman alone."
    assert warned(f"{three}  - {{id: men, probe: painted, metric: perceived_share, group: man, at_least: 0.1}}\n") == []
    write_prompts({"doctor": "a doctor", "nurse": "a nurse"}, 60, "few", root=jobs / "datasets")
    (few,) = warned(LABELLED.replace("dataset: jobs", "dataset: few"))
    assert few == "probe 'painted' has 60 pictures of 'doctor': shares of so few settle only large changes."
    table(jobs, [("man", "")] * SEEDS)
    (told,) = judged_labels(jobs, three.replace(", picture: file", "")).warnings[:1]
    assert told.endswith("alone. Remedy: give every group that may lose a check of its own.")
    assert warned(LABELLED.replace("dataset: jobs", "dataset: few").replace(" by: subject,", "")) == []


def test_a_table_of_labels_is_told_that_it_says_nothing_of_subjects(jobs: Path) -> None:
    with pytest.raises(SuiteError, match="takes labels that somebody gave") as refused:
        run(jobs, f"{LABELLED}  - {{id: shown, probe: painted, metric: subject_shown, at_least: 0.5}}\n")
    assert "take the check out" in refused.value.remedy


def test_a_baseline_that_no_check_compares_with_is_said(jobs: Path) -> None:
    said = "notice: no check compares with the baseline (no_worse_than: baseline)"
    table(jobs, [("woman", "a.png")] * SEEDS)
    (jobs / "before.csv").write_bytes((jobs / "now.csv").read_bytes().replace(b"a.png", b"b.png"))
    compares = (
        "  - {id: men, probe: painted, metric: perceived_share, group: man, no_worse_than: baseline, margin: 0.1}\n"
    )
    for text, baseline, heard in (
        (LABELLED, "model:labels:before.csv", True),
        (LABELLED + compares, "model:labels:before.csv", False),
        (LABELLED, "none", False),
    ):
        (jobs / "fairness_suites" / "jobs.yaml").write_text(text, encoding="utf-8")
        prepared = gate.prepare("jobs", jobs)
        typed = {"mlflow": "off", "cache": "off", "baseline": baseline}
        settings = resolve(prepared.loaded.suite, typed, environment={})
        found = gate.evaluate(prepared, settings, command="x")
        assert (said in found.messages) is heard, (baseline, [one.reason for one in found.record.checks])


def test_tables_that_do_not_fit_the_probe_give_no_verdict(jobs: Path) -> None:
    for cells, wanted in (
        ([("men", "a")] * SEEDS, "hold men"),
        ([("man", "")] * SEEDS, "has no 'file'"),
        ([("absent", "a")] * SEEDS, "hold absent"),
    ):
        table(jobs, cells)
        found = run(jobs, LABELLED)
        assert {one.verdict for one in found.values()} == {"error"}
        assert wanted in found["readable"].reason


@pytest.fixture
def people(jobs: Path) -> Path:
    """Twenty pictures of men and twenty of women; the reader that misses women overlooks the first six."""
    colours = {"man": (0, 0), "woman": (100, 50)}
    rows = []
    for who, (red, green) in colours.items():
        for at in range(20):
            data = io.BytesIO()
            Image.new("RGB", (8, 8), (red, green, 70 if at < 6 else 90)).save(data, "PNG")
            rows.append({"image": data.getvalue(), "path": f"{who}{at}.png", "set_id": f"{who}{at}", "member": "only",
                         "subject": "person", "gender": who})  # fmt: skip
    write_dataset(
        jobs / "datasets/people/v1",
        rows,
        name="people",
        version="v1",
        attributes={"gender": list(colours)},
        recipe={"name": "drawn"},
        licence="CC0-1.0",
        counterfactual=False,
    )
    return jobs


@pytest.mark.parametrize(("reader", "women"), [("well", 20), ("misses", 14)])
def test_a_reader_is_measured_on_pictures_of_known_groups_as_the_suite_pins_it(
    people: Path, reader: str, women: int
) -> None:
    text = SUITE.replace("glance:well", f"glance:{reader}").replace(digest("glance:well"), digest(f"glance:{reader}"))
    (people / "fairness_suites" / "jobs.yaml").write_text(text, encoding="utf-8")
    found = CliRunner().invoke(app, ["suite", "reader", "jobs", "people", "--root", str(people)])
    assert found.exit_code == 0, found.output
    named = CliRunner().invoke(app, ["suite", "reader", "jobs", "--root", str(people)])
    assert named.stdout == f"fingerprint: {digest(f'glance:{reader}')}\n"
    measured = json.loads(found.stdout.removeprefix("measured: "))
    assert measured == {
        "man": {"man": 20, "woman": 0, "unreadable": 0},
        "woman": {"man": 20 - women, "woman": women, "unreadable": 0},
    }


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ("attribute: gender", "attribute: race", "does not record"),
        ("woman: a woman}\n", "women: a woman}\n", "has no picture that shows 'women'"),
        ("model: glance:well", "model: glance:misses", "the suite pins"),
    ],
)
def test_a_reader_that_cannot_be_measured_says_why(people: Path, old: str, new: str, wanted: str) -> None:
    text = SUITE[: SUITE.index("    measured")] + SUITE[SUITE.index("decision:") : SUITE.index("  - {id: women")]
    (people / "fairness_suites" / "jobs.yaml").write_text(text.replace(old, new), encoding="utf-8")
    found = CliRunner().invoke(app, ["suite", "reader", "jobs", "people", "--root", str(people)])
    assert found.exit_code != 0
    assert wanted in found.output


def test_prompts_that_a_generator_reads_as_one_are_named(jobs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Painter, "indistinct", lambda _self, ensembles: [(0, len(ensembles) - 1)], raising=False)
    found = run(jobs)
    assert {one.verdict for one in found.values()} == {"error"}
    assert "reads the prompts 'a photo of a doctor' and 'a photo of a nurse' as the same text" in found["shown"].reason


@pytest.mark.parametrize("cached", [True, False])
def test_pictures_that_several_probes_and_checks_need_are_painted_once(
    cached: bool, jobs: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Painter, "cached", True)
    monkeypatch.setattr(Painter, "painted", 0)
    other = SUITE.split("probes:\n")[1].split("decision:", maxsplit=1)[0].replace("painted:", "again:")
    both = SUITE.replace("decision:", f"{other}decision:")
    both += "  - {id: sure, probe: again, metric: readable, at_least: 0.9}\n"
    cache, scratch = tmp_path_factory.mktemp("cache"), tmp_path_factory.mktemp("scratch")
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    found = run(jobs, both, baseline="none", cache=str(cache) if cached else "off")
    assert found["sure"].verdict == found["readable"].verdict == "pass"
    assert Painter.painted == len(WORDS) * SEEDS
    assert any(cache.rglob("*.safetensors")) is cached
    assert not any(scratch.iterdir()), "without a cache, pictures are kept until the run ends"
