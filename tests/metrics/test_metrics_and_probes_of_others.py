"""An installed package adds a metric and a probe, each one class: suites use them, and everything shows them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import others_plugin
import pytest
from rich.console import Console
from toy_repository import SUITE, Toy

from fairgate import gate
from fairgate.ground import plugins
from fairgate.ground.errors import FairgateError, SuiteError
from fairgate.interfaces import use_installed_packages
from fairgate.interfaces.pytest_plugin.fixture import Fairness
from fairgate.metrics import METRICS
from fairgate.probes import PROBES, ProbeScores
from fairgate.records import own_metrics
from fairgate.reports import (
    read_results,
    render_comment,
    render_html,
    terminal_summary,
    terminal_table,
    write_results,
)
from fairgate.reports.formatting import metric_words
from fairgate.suites import load_suite, resolve
from fairgate.suites.schema import Suite

PROBE = '  versus: {kind: contrast, prompt: "a photo of a doctor", against: "a photo of a nurse"}\n'
SOUND = "  - {id: sound, probe: versus, metric: sound_sets, below: 0.7, at_least: 0.9}\n"
KEPT = "  - {id: kept, probe: labels, metric: sound_sets, below: 0.7, no_worse_than: baseline, margin: 0.05}\n"
GAP = "  - {id: gap, probe: versus, metric: group_gap, over: gender, at_least: -0.2}\n"
TEXT = SUITE.replace("decision:", f"{PROBE}decision:") + SOUND + KEPT + GAP
ENTRIES = {
    "fairgate.metrics": {"sound_sets": "LowSets"},
    "fairgate.probes": {"contrast": "ContrastProbe", "needs_words": "NeedsAnswers"},
}


class Others(metadata.Distribution):
    """An installed package."""

    def read_text(self, filename: str) -> str | None:
        return "Name: others\nVersion: 1.2\n" if filename == "METADATA" else None

    def locate_file(self, path: Any) -> Any:
        return path


OTHERS = Others()


def install(monkeypatch: pytest.MonkeyPatch, entries: dict[str, dict[str, str]]) -> None:
    """Entry points as of an installed package; both registries forget what they found so far."""

    def entry_points(group: str) -> list[metadata.EntryPoint]:
        named = entries.get(group, {})
        found = [metadata.EntryPoint(name, f"others_plugin:{value}", group) for name, value in named.items()]
        return [entry._for(OTHERS) for entry in found]  # type: ignore[attr-defined]

    monkeypatch.setattr(plugins, "entry_points", entry_points)
    for registry in (METRICS, PROBES):
        for built_in in registry._built_in:
            assert registry[built_in]
        monkeypatch.setattr(registry, "_entries", None)
        monkeypatch.setattr(registry, "_found", dict(registry._found))


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, ENTRIES)
    use_installed_packages()


def evaluated(toy: Toy, text: str = TEXT) -> tuple[gate.Prepared, Any]:
    toy.write_suite(text)
    prepared = gate.prepare("jobs", toy.root)
    typed: dict[str, str | None] = {"mlflow": "off", "cache": "off", "model": "scores:biased.csv?values=logit"}
    settings = resolve(prepared.loaded.suite, typed, environment={})
    return prepared, settings


@pytest.mark.usefixtures("installed")
def test_they_run_through_a_gate_and_appear_everywhere(toy: Toy) -> None:
    prepared, settings = evaluated(toy)
    record = gate.evaluate(prepared, settings, command="pytest").record
    checks = {check.item: check for check in record.checks}
    assert checks["sound"].metric == "sound_sets"
    assert checks["sound"].verdict == "fail"
    assert checks["sound"].lo is not None
    assert checks["kept"].p_adjusted is not None
    assert checks["kept"].verdict == "fail"
    assert checks["gap"].groups
    assert record.probes["versus"].startswith("contrast:")
    assert re.fullmatch(r"1\.2 sha256:[0-9a-f]{64}", (record.environment.plugins or {})["others"])
    written = json.loads(write_results(record, toy.root / "report").read_text(encoding="utf-8"))
    assert {"sound_sets"} <= {check["metric"] for check in written["checks"]}
    console = Console(record=True, width=200)
    console.print(terminal_table(record), *terminal_summary(record))
    for text in (console.export_text(), render_comment(record), render_html(record, None)):
        assert "share of sound sets" in text


@pytest.mark.usefixtures("installed")
def test_the_schema_of_suites_and_the_fixture_offer_them(toy: Toy) -> None:
    schema = Suite.model_json_schema(by_alias=True)
    assert schema["$defs"]["Check"]["properties"]["metric"]["enum"][-1] == "sound_sets"
    assert schema["$defs"]["Check"]["properties"]["below"]["exclusiveMaximum"] == 1
    assert schema["$defs"]["Check"]["additionalProperties"] is False
    assert "ContrastProbe" in schema["$defs"]
    probe = Fairness(*evaluated(toy)).probe("versus")
    assert probe.sound_sets(below=0.7) < 0.9
    assert "sound_sets" in dir(probe)
    with pytest.raises(AttributeError, match="did you mean 'sound_sets'"):
        probe.sound_set()
    for wrong, why in (({"over": "gender"}, "takes no `over`"), ({"k": 3}, "takes no `k`")):
        with pytest.raises(TypeError, match=why):
            probe.sound_sets(below=0.7, **wrong)
    with pytest.raises(TypeError, match="group_gap needs `over`"):
        probe.group_gap()


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("old", "new", "problem", "remedy"),
    [
        ("below: 0.7, at_least", "at_least", "lacks the `below` that sound_sets needs", "set `below`"),
        ("below: 0.7, at_least", "below: 7.0, at_least", "gives sound_sets a `below`", "set `below`"),
        ("below: 0.7, at_least", "below: 0.999, at_least", "calls nearly all low", "lower `below`"),
        (
            "metric: sound_sets, below: 0.7, at",
            "metric: sound_sets, below: 0.7, first: a, at",
            "`first`",
            "remove `first`",
        ),
        ("below: 0.7, at_least", "belov: 0.7, at_least", "unknown key 'belov'", "did you mean 'below'"),
        (
            "metric: sound_sets, below: 0.7, at",
            "metric: sound_set, at",
            "'sound_set' is none of the known names",
            "'sound_sets'",
        ),
        ("metric: sound_sets, below: 0.7, at", "metric: recall_at_k, k: 1, at", "on a contrast probe", "a retrieval"),
        ("metric: sound_sets, below: 0.7, at", "metric: accuracy, at", "no image is right or wrong", "`group_gap`"),
        (
            "kind: contrast",
            "kind: contrats",
            "'contrats' is no kind of probe",
            "did you mean 'contrast'? a package",
        ),
        ("kind: contrast,", "kind: contrast, promt: x,", "unknown key 'promt'", "did you mean 'prompt'"),
    ],
)
def test_suites_are_as_strict_with_them(toy: Toy, old: str, new: str, problem: str, remedy: str) -> None:
    with pytest.raises(SuiteError, match=problem) as caught:
        load_suite(toy.write_suite(TEXT.replace(old, new)), toy.root)
    assert remedy in str(caught.value.remedy)


@pytest.mark.usefixtures("installed")
def test_a_model_that_cannot_answer_is_refused_by_what_it_lacks(toy: Toy) -> None:
    record = gate.evaluate(
        *evaluated(toy, TEXT.replace("kind: contrast", "kind: needs_words")), command="pytest"
    ).record
    assert record.verdict == "error"
    assert all("lacks the capability 'answer'" in one.reason for one in record.checks)


def test_a_package_cannot_take_a_built_in_name(monkeypatch: pytest.MonkeyPatch, toy: Toy) -> None:
    install(monkeypatch, {"fairgate.metrics": {"accuracy": "Usurper"}})
    assert type(METRICS["accuracy"]).__name__ == "Accuracy"
    with pytest.raises(FairgateError, match="has the name of another one"):
        list(METRICS)
    with pytest.raises(FairgateError, match="there is one of this name"):
        METRICS.register("accuracy", others_plugin.Usurper)


def test_a_package_that_cannot_be_loaded_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    install(
        monkeypatch,
        {"fairgate.metrics": {"lost": "Nothing", "other": "LowSets", "no_metric": "ContrastProbe"}},
    )
    for name, why in (("lost", "Nothing"), ("other", "its name is 'sound_sets'"), ("no_metric", "no fairgate.metrics")):
        with pytest.raises(FairgateError, match=f"'{name}' .* cannot be loaded: .*{why}"):
            METRICS[name]


def test_a_name_that_another_entrys_module_registered_has_its_package_too(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, {"fairgate.metrics": {"sound_sets": "LowSets"}})
    metric = METRICS["sound_sets"]
    install(monkeypatch, {"fairgate.metrics": {"sound_sets": "LowSets"}})
    monkeypatch.setitem(METRICS._found, "sound_sets", metric)  # by a decorator, and never looked up by its entry
    assert set(METRICS.packages_of(["sound_sets", "accuracy"])) == {"others"}


def test_a_packages_digest_is_of_all_that_it_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(monkeypatch, {"fairgate.metrics": {"sound_sets": "LowSets"}})
    helper = tmp_path / "helper.py"
    monkeypatch.setattr(Others, "files", [metadata.PackagePath("helper.py")])
    monkeypatch.setattr(Others, "locate_file", lambda _, path: tmp_path / path)
    found = set()
    for text in ("x = 1", "x = 2"):
        helper.write_text(text)
        found.add(METRICS.packages_of(["sound_sets"])["others"])
    assert len(found) == 2


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("precision_at_k", "PrecisionAtK", "sound@10"),
        ("precision_top", "PrecisionTop", "precision top@10"),
        ("precision_at_k_mean", "PrecisionAtKMean", "precision at k mean@10"),
    ],
)
def test_a_metric_of_any_name_may_take_a_k_which_records_hold_apart(
    monkeypatch: pytest.MonkeyPatch, toy: Toy, name: str, value: str, shown: str
) -> None:
    install(monkeypatch, ENTRIES | {"fairgate.metrics": {name: value}})
    use_installed_packages()
    checks = [f"  - {{id: top-{k}, probe: labels, metric: {name}, k: {k}, at_least: 0.9}}\n" for k in (5, 10)]
    record = gate.evaluate(*evaluated(toy, SUITE + "".join(checks)), command="pytest").record
    path = write_results(record, toy.root / "report")
    read = {check.item: check for check in read_results(path).checks}
    assert [(read[item].metric, read[item].k) for item in ("top-5", "top-10")] == [(name, 5), (name, 10)]
    assert metric_words(read["top-10"]) == shown


def test_a_name_that_ends_in_a_number_has_no_k(monkeypatch: pytest.MonkeyPatch, toy: Toy) -> None:
    install(monkeypatch, {"fairgate.metrics": {"error_at_1": "ErrorAt1"}})
    text = SUITE + "  - {id: error, probe: labels, metric: error_at_1, below: 0.7, at_least: 0.9}\n"
    record = gate.evaluate(*evaluated(toy, text), command="pytest").record
    path = write_results(record, toy.root / "report")
    (read,) = (check for check in read_results(path).checks if check.id == "error")
    assert (read.metric, read.k) == ("error_at_1", None)


def test_packages_are_looked_for_once_and_not_for_built_in_names(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, ENTRIES)
    asked: list[str] = []
    installed_points = plugins.entry_points

    def counted(group: str) -> Any:
        asked.append(group)
        return installed_points(group)

    monkeypatch.setattr(plugins, "entry_points", counted)
    assert METRICS["fairness"].spec.name == "fairness"
    assert not asked
    assert METRICS["sound_sets"] is METRICS["sound_sets"]
    assert len(METRICS) == len(own_metrics()) + 1
    assert asked == ["fairgate.metrics"]


def test_what_reports_know_of_fairgates_own_is_what_the_metrics_and_probes_say() -> None:
    from fairgate.metrics.__main__ import text
    from fairgate.records.metrics import FILE, own_metrics

    assert FILE.read_text(encoding="utf-8") == text(), "run `make generate`"
    assert own_metrics() == {metric.spec.name: metric.spec for metric in METRICS.own()}


@pytest.mark.usefixtures("installed")
def test_paired_values_of_another_shape_are_an_error_that_names_the_metric(
    toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = others_plugin.LowSets.measure
    monkeypatch.setattr(others_plugin.LowSets, "measure", lambda *given: replace(measured(*given), paired=np.ones(3)))
    prepared, settings = evaluated(toy)
    checks = {check.item: check for check in gate.evaluate(prepared, settings, command="pytest").record.checks}
    assert checks["kept"].verdict == "error"
    assert "'sound_sets' gives `paired` the shape (3,)" in checks["kept"].reason
    assert "the package that adds the metric" in checks["kept"].reason


def test_an_unknown_metric_may_be_one_of_a_package_that_is_not_installed(toy: Toy) -> None:
    with pytest.raises(SuiteError) as caught:
        evaluated(toy, SUITE + KEPT)
    assert "a package that adds the metric may not be installed" in str(caught.value.remedy)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("where", "name", "result", "problem"),
    [
        ("LowSets", "measure", ZeroDivisionError("division"), "the metric 'sound_sets' of the package 'others'"),
        ("ContrastProbe", "run", ZeroDivisionError("division"), "the probe 'contrast' of the package 'others'"),
        ("ContrastProbe", "run", {"versus": ProbeScores(np.zeros(3))}, "'versus' (contrast) returned values"),
    ],
)
def test_a_fault_of_a_package_is_an_error_that_names_it(
    toy: Toy, monkeypatch: pytest.MonkeyPatch, where: str, name: str, result: Any, problem: str
) -> None:
    monkeypatch.setattr(getattr(others_plugin, where), name, Mock(side_effect=[result] * 9))
    record = gate.evaluate(*evaluated(toy), command="pytest").record
    (reason,) = {check.reason for check in record.checks if check.id == "sound"}
    assert problem in reason
    assert record.verdict != "pass"
