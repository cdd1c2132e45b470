"""The `fairness` fixture: assert on a scored suite in Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fairgate import gate
from fairgate.ground.errors import FairgateError, SuiteError, did_you_mean
from fairgate.ground.number_format import number, share_words
from fairgate.interfaces.pytest_plugin.items import explain_check, worst_set_line
from fairgate.metrics import METRICS, Metric
from fairgate.records import CheckResult, Coverage, RunRecord
from fairgate.reports import no_interval_words, null_words, tie_words, unit_of
from fairgate.suites import Check, Settings


class Measured(float):
    """A number whose repr, which pytest shows when an assertion fails, has its interval, its sets and the worst set."""

    result: CheckResult
    unit: str

    def __new__(cls, result: CheckResult, unit: str = "set") -> Measured:
        """The value of a check's result, and whether it is made of images or of sets."""
        self = super().__new__(cls, result.value if result.value is not None else float("nan"))
        self.result, self.unit = result, unit
        return self

    def __repr__(self) -> str:
        result = self.result
        where = f" for {result.subject}" if result.subject else ""
        interval = no_interval_words(result) or f"[{number(result.lo)}, {number(result.hi)}]"
        notes = "".join(f"; {words}" for words in (null_words(result), tie_words(result)) if words)
        over = share_words(result.n_sets, self.unit)
        text = f"{result.metric_with_k}{where} = {number(result.value)} {interval} over {over}{notes}"
        return f"{text}; {worst_set_line(result.worst_sets[0])}" if result.worst_sets else text


class Fairness:
    """A suite's dataset and model, scored on first use."""

    def __init__(self, prepared: gate.Prepared, settings: Settings) -> None:
        self._prepared = prepared
        self._settings = settings
        self._scored: gate.Scored | None = None

    def probe(self, name: str) -> ScoredProbe:
        """One of the suite's probes, over all subjects."""
        known = self._prepared.loaded.suite.probes
        if name not in known:
            raise SuiteError(
                f"suite '{self._prepared.loaded.name}' has no probe '{name}'.",
                where=self._prepared.loaded.where("probes"),
                remedy=did_you_mean(name, known) or f"probes here: {', '.join(known)}",
            )
        return ScoredProbe(self, name, None)

    def assert_no_intersectional_regression(
        self, over: Sequence[str], margin: float, *, probe: str | None = None
    ) -> None:
        """Fail unless no group of the crossed attributes clearly or possibly fell behind its set-mates by `margin`.

        Where images form no sets, a group is compared with the mean of all groups. Compares with the baseline of the
        run. `probe` may be left out where the suite has one classification probe.
        """
        __tracebackhide__ = True  # what fails is a line of the test
        if probe is None:
            known = self._prepared.loaded.suite.probes.items()
            named = [name for name, each in known if each.compared_as == "classification"]
            if len(named) != 1:
                raise SuiteError(
                    f"suite '{self._prepared.loaded.name}' has {len(named)} classification probes.",
                    where=self._prepared.loaded.where("probes"),
                    remedy=f"say which: probe=... ({', '.join(named) or 'define one'})",
                )
            probe = named[0]
        result = self.check(
            {"probe": probe, "metric": "group_gap", "over": list(over)}
            | {"no_worse_than": "baseline", "margin": float(margin)},
            None,
        )
        if result.verdict != "pass":
            raise AssertionError("\n".join(explain_check(result, self.record_of(result))))

    def check(self, rule: dict[str, Any], subject: str | None) -> CheckResult:
        """Decide one check that is written here instead of in the suite file."""
        __tracebackhide__ = True
        check = Check.model_validate({"id": rule["metric"].replace("_", "-"), **rule})
        try:
            if self._scored is None:
                self._scored = gate.score(self._prepared, self._settings)
            return gate.decide_one(self._prepared, self._scored, check, subject)
        except FairgateError as error:  # problem, place and remedy say it: our own lines would hide them
            raise error.with_traceback(None) from None

    def record_of(self, result: CheckResult) -> RunRecord:
        """As much of a run's record as sentences about its only check read."""
        data, scored = self._prepared.dataset.manifest, self._scored
        sets, images = data.n_sets, data.n_rows
        return RunRecord.model_construct(
            dataset=gate.dataset_info(self._prepared.dataset),
            baseline=scored and scored.info("baseline"),
            anchor=None,
            coverage=Coverage(
                expected_sets=sets, scored_sets=sets, expected_images=images, scored_images=images, prompts=0
            ),
            checks=[result],
        )


class ScoredProbe:
    """One probe's scores, over all subjects or on one."""

    def __init__(self, fairness: Fairness, name: str, subject: str | None) -> None:
        self._fairness = fairness
        self._name = name
        self._subject = subject

    def subject(self, name: str) -> ScoredProbe:
        """The same probe on one subject's sets."""
        return ScoredProbe(self._fairness, self._name, name)

    def __getattr__(self, alias: str) -> Callable[..., Measured]:
        """One method per metric, by its alias: `accuracy(over="gender")`, `max_skew(over="race", k=100)`.

        `over` names the attributes of the groups, `k` the cut of a ranking (100, and 1 for `recall`, unless given), and
        further arguments the metric's other settings.
        """
        known = () if alias.startswith("_") else METRICS.values()
        metric = next(
            (metric_class for metric_class in known if alias in (metric_class.spec.alias, metric_class.spec.name)), None
        )
        if metric is None:
            near = None if alias.startswith("_") else did_you_mean(alias, _aliases())
            raise AttributeError("; ".join(filter(None, [f"a probe measures no '{alias}'", near])))

        def measured(over: str | Sequence[str] | None = None, k: int | None = None, **settings: Any) -> Measured:
            __tracebackhide__ = True
            return self._measure(metric, over, settings if k is None else {**settings, "k": k})

        measured.__name__, measured.__doc__ = alias, metric.spec.meaning
        return measured

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *_aliases()]

    def _measure(self, metric: Metric, over: str | Sequence[str] | None, settings: dict[str, Any]) -> Measured:
        __tracebackhide__ = True
        spec = metric.spec
        if spec.of_two:
            raise TypeError(f"{spec.name} compares two runs: write a check `no_worse_than: baseline` into the suite")
        if (over is None and spec.per_group == "yes") or (over is not None and spec.per_group == "no"):
            raise TypeError(f"{spec.name} {'needs' if over is None else 'takes no'} `over`")
        if "k" in settings and not metric.needs_k:
            raise TypeError(f"{spec.name} takes no `k`")
        if metric.needs_k:
            settings = {"k": spec.usual_k, **settings}
        rule: dict[str, Any] = {"probe": self._name, "metric": spec.name, **settings}
        rule["over"] = over if over is None or isinstance(over, str) else list(over)
        spec = metric.spec_for(metric.Settings.model_construct(**settings))
        rule["at_least" if spec.better == "higher" else "at_most"] = (
            spec.highest if spec.better == "higher" else spec.lowest
        )
        result = self._fairness.check(rule, self._subject)
        return Measured(result, unit_of(self._fairness.record_of(result)))


def _aliases() -> list[str]:
    return [metric.spec.alias for metric in METRICS.values()]
