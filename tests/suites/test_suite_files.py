"""Suite files are strict: what is wrong is named, with its line and a remedy."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_repository import SUITE, Toy

import fairgate.suites
from fairgate.ground.errors import SuiteError
from fairgate.probes import with_article
from fairgate.suites import load_suite, suite_names, suite_path
from fairgate.suites.schema import Suite


def refused(toy: Toy, text: str) -> SuiteError:
    with pytest.raises(SuiteError) as caught:
        load_suite(toy.write_suite(text), toy.root)
    assert caught.value.where
    assert caught.value.remedy
    return caught.value


def line_of(text: str, needle: str) -> int:
    return next(number for number, line in enumerate(text.splitlines(), 1) if needle in line)


def test_a_valid_suite_loads_and_its_digest_ignores_comments(toy: Toy) -> None:
    first = load_suite(toy.suite, toy.root)
    second = load_suite(toy.write_suite("# a comment\n" + SUITE), toy.root)
    third = load_suite(toy.write_suite(SUITE.replace("at_least: 0.9}", "at_least: 0.91}")), toy.root)
    assert first.name == "jobs"
    assert first.digest == second.digest != third.digest


def test_an_unknown_suite_is_answered_with_the_nearest_name(toy: Toy) -> None:
    with pytest.raises(SuiteError, match=r"no fairness suite 'jbos'") as caught:
        suite_path("jbos", toy.root)
    assert caught.value.remedy == "did you mean 'jobs'? suites here: jobs"
    assert suite_names(toy.root) == ["jobs"]


def test_a_repository_without_suites_names_the_command_that_writes_one(tmp_path: Path) -> None:
    with pytest.raises(SuiteError) as caught:
        suite_path("jobs", tmp_path)
    assert "write one: `fairgate suite new NAME --dataset DATA --model URI`" in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "problem", "remedy"),
    [
        ("at_least: 0.9}", "at_last: 0.9}", "unknown key 'at_last'", "did you mean 'at_least'"),
        ("checks:", "cheks:", "unknown key 'cheks'", "did you mean 'checks'"),
        ("decision: {draws: 1000}", "decision: {drawz: 1000}", "unknown key 'drawz'", "did you mean 'draws'"),
        ("decision: {draws: 1000}", "groups: {min_set: 5}", "unknown key 'min_set'", "did you mean 'min_sets'"),
        (
            "decision: {draws: 1000}",
            "groups: {attributes: all}",
            "'each' or a list is expected\\.$",
            "a list, or `each` for all",
        ),
        ("probes:", "probes:\n  e: {kind: image_editing, reader: {modle: x}}", "'modle' in probes.e.reader", "'model'"),
        ('prompts: ["', 'promts: ["', "unknown key 'promts'", "did you mean 'prompts'"),
        ("    template:", "    tempalte:", "unknown key 'tempalte'", "did you mean 'template'"),
        ('    prompts: ["{subject}", "a picture of {a_subject}"]', "", "missing", "add the key 'prompts'"),
        ("probe: search", "probe: serch", "the probe 'serch'", "did you mean 'search'"),
        ("probe: search", "probe: labels", "on a zero_shot", "needs a retrieval or association probe"),
        ("k: 60, ", "", "lacks a `k`", "for rankings"),
        ("at_least: 0.9}", "k: 3, at_least: 0.9}", "has a `k`", "for rankings"),
        ("over: each, ", "", "over no attribute", "over: each"),
        ("at_least: 0.9}", "over: each, at_least: 0.9}", "does not use", "remove `over`"),
        ("at_most: 0.45", "at_least: 0.45", "of which lower is better", "at_most: 0.45"),
        (
            "over: crossed, by: subject, no_worse_than: baseline, margin: 0.04",
            "over: crossed, at_most: 0.1",
            "of which higher is better",
            "at_least: -0.1",
        ),
        ("at_least: 0.9}", "at_least: 1.2}", "cannot reach", "inside that range"),
        ("at_most: 0.45", "at_most: -1", "cannot reach", "inside that range"),
        ("at_least: 0.9}", "at_least: 0.9, at_most: 1.0}", "exactly one of", "each key with its meaning"),
        (", margin: 0.05", "", "go together", "each key with its meaning"),
        ("id: useful", "id: gaps", "are given twice", "each key with its meaning"),
        ("metric: accuracy", "metric: acuracy", "'acuracy' is none of the known names", "did you mean 'accuracy'"),
        ("dataset: toy", "dataset: 0000", "text is expected", "put it in quotes"),
        ("schema: 1", "schema: 2", "schema", "`schema`: Version"),
        ("margin: 0.05", "margin: .inf", "finite", "`margin`: Loss against the baseline"),
        ("margin: 0.05", "margin: .nan", "at least 0|finite", "`margin`: Loss against the baseline"),
        ("margin: 0.05", "margin: 1.0", "it would never fail", "would not accept"),
        ("at_least: 0.9}", "at_least: .nan}", "finite", "`at_least`: Lower bound"),
        ("suite: jobs", "suite: other", "named 'jobs' and the suite in it 'other'", "same name"),
        ("[chef, line cook]", "[chef]", "at least two labels", "`labels`: Labels that compete"),
        ("[chef, line cook]", "[chef, chef]", "are given twice", "`labels`: Labels that compete"),
        ("a photo of a {label}", "a photo of a {lable}", "unknown placeholder", "A prompt with"),
        ("a photo of a {label}", "a photo", "never uses", "A prompt with"),
        ("a photo of a {label}", "a photo of {label", "not a template", "A prompt with"),
        (
            "a photo of a {label}",
            "a photo of {label:>999999999}",
            "a name in braces and nothing more",
            "A prompt with",
        ),
        (
            "a photo of a {label}",
            "a photo of {label!r}",
            "a name in braces and nothing more",
            "A prompt with",
        ),
        ("a photo of a {label}", "a photo of {label.__class__}", "unknown placeholder", "A prompt with"),
        ("dataset: toy", "dataset: ../../etc/passwd", "dataset", "`dataset`: A release in"),
        ("kind: retrieval\n    ", "", "it has no 'kind'", "known kinds: zero_shot"),
        ("kind: retrieval", "kind: os.system", "no kind of probe", "may not be installed"),
        ("  - {id: useful", "  - {id: fairness\n  - {id: useful", "not valid YAML", "fix"),
        ("suite: jobs", "suite: jobs\nsuite: jobs", "is given twice", "keep one"),
        ("suite: jobs", "suite: &a jobs\nmodel: *a", "aliases", "fix"),
        ("suite: jobs", "suite: jobs\n? [a, b]\n: c", "plain text", "as a word"),
        ("schema: 1", "schema: !!python/object/apply:os.system ['true']", "tags", ""),
    ],
)
def test_what_is_wrong_is_named_with_a_remedy(toy: Toy, old: str, new: str, problem: str, remedy: str) -> None:
    assert old in SUITE
    error = refused(toy, SUITE.replace(old, new, 1))
    assert re.search(problem, error.problem), error.problem
    assert remedy in str(error.remedy)


def test_the_line_of_the_mistake_is_named(toy: Toy) -> None:
    text = SUITE.replace("at_most: 0.45", "at_most: 0.45, hue: 3")
    assert refused(toy, text).where == f"fairness_suites/jobs.yaml:{line_of(text, 'hue')}"


def test_a_suite_nested_beyond_reason_is_refused(toy: Toy) -> None:
    assert "nested too deeply" in refused(toy, "schema: " + "[" * 20 + "]" * 20).problem


def test_an_empty_suite_a_giant_one_and_a_binary_one_are_refused(toy: Toy) -> None:
    assert "empty" in refused(toy, "").problem
    assert "at most" in refused(toy, "#" * (1 << 20) + "#").problem
    toy.suite.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SuiteError, match="UTF-8"):
        load_suite(toy.suite, toy.root)
    toy.suite.unlink()
    with pytest.raises(SuiteError, match="cannot be read"):
        load_suite(toy.suite, toy.root)


def test_a_control_character_is_refused_in_words(toy: Toy) -> None:
    assert "not valid YAML" in refused(toy, "schema: \x01").problem


@settings(deadline=None)
@given(st.text(max_size=200))
def test_no_text_breaks_the_reader(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.mktemp("suites") / "x.yaml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(SuiteError):
        load_suite(path, path.parent)


@pytest.mark.parametrize(
    ("word", "written"),
    [
        ("engineer", "an engineer"),
        ("chef", "a chef"),
        ("usher", "an usher"),
        ("university clerk", "a university clerk"),
    ],
)
def test_articles_follow_how_a_word_begins(word: str, written: str) -> None:
    assert with_article(word) == written


def test_the_json_schema_knows_every_key_of_the_example() -> None:
    schema = Suite.model_json_schema(by_alias=True)
    assert {"schema", "suite", "dataset", "probes", "checks"} <= set(schema["properties"])
    assert schema["additionalProperties"] is False


def test_the_shipped_json_schema_is_the_one_that_is_generated() -> None:
    shipped = Path(fairgate.suites.__file__).with_name("suite.schema.json").read_text(encoding="utf-8")
    remedy = "run `make generate`"
    assert json.loads(shipped) == Suite.model_json_schema(by_alias=True), remedy
