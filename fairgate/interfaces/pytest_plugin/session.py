"""One evaluation per suite and pytest run: under xdist the controller evaluates, and tells its workers."""

from __future__ import annotations

import io
import json
import os
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fairgate import gate
from fairgate.ground.errors import BaselineError
from fairgate.ground.working_folder import refuse_libraries
from fairgate.interfaces import end_quickly, use_installed_packages
from fairgate.records import NEEDS_APPROVAL, NO_VERDICT, CheckResult, RunRecord
from fairgate.reports import (
    common_cause,
    fitted,
    junit_suite_properties,
    tell_github,
    terminal_summary,
    terminal_table,
    verdict_words,
)
from fairgate.suites import FOLDER, OPTIONS, Settings, named_bases, suite_names, suite_path

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter


SESSION: pytest.StashKey[GateSession] = pytest.StashKey()
"""Where pytest's configuration holds this run's suites and records."""


class GateSession:
    """The suites of a pytest run, and their records, which are evaluated on first use."""

    def __init__(self, config: pytest.Config) -> None:
        use_installed_packages()
        self.config = config
        # pytest guesses its rootdir before it knows our options, and takes the folder of `--fairness-report DIR` for a
        # test folder when it exists.
        folders = (config.rootpath, config.invocation_params.dir)
        self.root = next((folder for folder in folders if (folder / FOLDER).is_dir()), config.rootpath)
        self.prepared: dict[str, gate.Prepared] = {}
        self.settings: dict[str, Settings] = {}
        self.by_path: dict[Path, str] = {}
        self.evaluations: dict[str, gate.Evaluation] = {}
        """By suite; without scores where another process made them."""
        self.explained: set[str] = set()
        self.several = False
        self.unpublished: dict[str, Settings] = {}
        """Suites that were evaluated here, with the settings by which they are written and logged at the end."""
        self.ran: set[tuple[str, str]] = set()
        self.first_baselines: set[str] = set()
        self._failed = self._not_judged = self._alone = False
        told = getattr(config, "workerinput", {}).get("fairgate_evaluations", "{}")  # of xdist's controller
        for suite, (record, *messages) in json.loads(told).items():
            self.evaluations[suite] = gate.Evaluation(RunRecord.model_validate_json(record), {}, tuple(messages))

    def prepare(self, names: Sequence[str]) -> list[Path]:
        """Load and plan suites (`all`: every one that is here or that the base has); their files.

        Raises a FairgateError for whatever is wrong with them.
        """
        refuse_libraries()
        everything = "all" in names
        wanted = suite_names(self.root) if everything else list(dict.fromkeys(names))
        for name in wanted:
            self._prepare(name)
        if everything:
            places = [place for prepared in self.prepared.values() for place in prepared.places]
            missing = sorted(set(gate.suites_of_bases(self.root, self._bases(), places)) - set(wanted))
            for name in missing:
                self._prepare(name)
            wanted += missing
        if not wanted:
            suite_path("all", self.root)
        self.several = self.several or len(wanted) > 1
        return [self.prepared[name].loaded.path for name in wanted]

    def _prepare(self, name: str) -> None:
        if name not in self.prepared:
            prepared = gate.prepare(name, self.root, self._bases())
            self.prepared[name], self.settings[name] = gate.hold(prepared, self._settings_of(prepared))
            self.by_path[prepared.loaded.path] = name

    def _bases(self) -> tuple[str, ...] | None:
        return named_bases(self.config.getoption("fairness_base"))

    def clear_reports(self, names: Sequence[str]) -> None:
        """Remove what earlier runs of these suites left in the report folder; before anything is prepared."""
        if hasattr(self.config, "workerinput"):  # xdist's controller has done so, and other workers may have written
            return
        report, baseline = map(self.config.getoption, ("fairness_report", "fairness_baseline"))
        wanted = suite_names(self.root) if "all" in names else list(dict.fromkeys(names))
        for name in wanted:
            gate.clear_report(name, self.root, report, baseline, *([name] if len(wanted) > 1 else []), ini=self._ini)

    def _report(self, suite: str) -> Path | None:
        """The folder that the run of a suite is written to: of several, none replaces another's."""
        report = self.settings[suite].report
        return report / suite if self.several and report is not None else report

    def _ini(self, name: str) -> str | None:
        return self.config.getini(name) or None

    def _settings_of(self, prepared: gate.Prepared) -> Settings:
        """The options of this run, resolved for a suite."""
        option = self.config.getoption
        typed: dict[str, str | None] = {key: option(entry.flag) for key, entry in OPTIONS.items()}
        settings = gate.settings_of(prepared, ini=self._ini, **typed)
        if option("fairness_update_baseline") and gate.first_baseline(prepared, settings, typed["baseline"]):
            self.first_baselines.add(prepared.loaded.name)
            return replace(settings, baseline="none")
        return settings

    def result(self, suite: str, item: str) -> CheckResult:
        """A check's result; the first call evaluates the whole suite."""
        if suite not in self.evaluations:
            self._evaluate(suite)
        return next(check for check in self.evaluations[suite].record.checks if check.item == item)

    def told(self) -> str:
        """What xdist's workers are told: the record and messages of every suite, as JSON (controller only)."""
        for suite in self.prepared:
            if suite not in self.evaluations:
                self._evaluate(suite)
        evaluations = self.evaluations.items()
        return json.dumps({suite: [each.record.model_dump_json(), *each.messages] for suite, each in evaluations})

    def add_junit_properties(self) -> None:
        """Add the run's own properties to the file of `--junitxml`."""
        from _pytest.junitxml import xml_key

        if (file := self.config.stash.get(xml_key, None)) is not None:
            for evaluation in self.evaluations.values():
                for name, value in junit_suite_properties(evaluation.record):
                    file.add_global_property(name, value)

    def exit_status(self, status: int) -> int:
        """3 where something was not judged and nothing failed, as `fairgate check` has it (`RunRecord.exit_code`); also
        where every check is waived or watched. 10 if all passed and a change needs an approval. Otherwise pytest's
        own, as in xdist's workers: the controller decides."""
        if hasattr(self.config, "workerinput"):
            return status
        if status == pytest.ExitCode.TESTS_FAILED and self._not_judged and not self._failed:
            return NO_VERDICT
        runs = [evaluation.record for evaluation in self.evaluations.values()]
        if status == pytest.ExitCode.OK and any(all(check.excused for check in run.checks) for run in runs):
            return NO_VERDICT
        asks = status == pytest.ExitCode.OK and any(run.needs_approval for run in runs)
        return NEEDS_APPROVAL if asks else status

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A check that fails counts as such, like any failing test; one that could not be computed is not judged.

        xdist's controller receives the reports of every worker.
        """
        if not report.failed:
            return
        ours = (self.config.rootpath / report.nodeid.partition("::")[0]) in self.by_path
        verdict = dict(report.user_properties).get("fairgate.verdict") if ours else "fail"
        self._not_judged |= verdict in ("error", None)  # None: the evaluation itself broke
        self._failed |= verdict == "fail"

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """What could not be collected failed."""
        self._failed |= report.failed

    @pytest.hookimpl(wrapper=True, trylast=True)  # around JUnit's file, and before the summary is printed
    def pytest_sessionfinish(self, session: pytest.Session) -> Iterator[None]:
        """Set the exit status, and with `--fairness-update-baseline` save a complete run as the baseline. Then, when
        nothing can change it any more, write the reports and log the runs."""
        self.add_junit_properties()
        session.exitstatus = self.exit_status(int(session.exitstatus))
        self._alone = len(session.items) == len(self.ran)
        if self.config.getoption("fairness_update_baseline") and not self.keep_baselines():
            session.exitstatus = session.exitstatus or pytest.ExitCode.USAGE_ERROR
        yield
        for suite in list(self.unpublished):
            try:
                self._publish(suite)
            except Exception:  # a defect, with which Python would exit with 1, "more biased", and without a summary
                traceback.print_exc()
                session.exitstatus = NO_VERDICT

    def pytest_unconfigure(self) -> None:
        """Keep pytest from searching this run's objects for cycles twice, and Python at its end: 0.2 s. Not if there
        were tests of the user's, of which pytest reports what they leave open."""
        if self._alone:
            end_quickly()

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        """Table, totals, and where the reports are, for every suite."""
        from rich.console import Console

        write = terminalreporter.write_line
        width, color = terminalreporter._tw.fullwidth, terminalreporter.hasmarkup
        known = terminalreporter.isatty or os.environ.get("COLUMNS", "").isdigit()
        width = width if known else max(width, 120)  # a log has room
        for name, evaluation in self.evaluations.items():
            words, good = verdict_words(evaluation.record), evaluation.record.ok
            terminalreporter.section(f"fairness suite {name}: {words}", red=not good, green=good)
            console = Console(file=io.StringIO(), width=width, force_terminal=color, no_color=not color)
            if common_cause(evaluation.record) is None:
                with console.capture() as captured:
                    console.print(terminal_table(evaluation.record, width))
                terminalreporter.write(captured.get())
            tell_github(evaluation.record, write, warn=write)
            first, report = name in self.first_baselines, self._report(name)
            lines = terminal_summary(
                evaluation.record, first_baseline=first, report=report, messages=evaluation.messages
            )
            for line in lines:
                write("\n".join(fitted(line, width)) if known else line)

    def _evaluate(self, suite: str) -> None:
        prepared, settings = self.prepared[suite], replace(self.settings[suite], report=self._report(suite))
        self.evaluations[suite] = gate.evaluate(prepared, settings, progress=self._progress)
        self.unpublished[suite] = settings

    def _publish(self, suite: str) -> None:
        evaluation, prepared, settings = self.evaluations[suite], self.prepared[suite], self.unpublished.pop(suite)
        reporter = self.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None and (settings.mlflow or settings.wandb):  # before they are told
            reporter.ensure_newline()
            reporter.write_line(f"{suite}: {verdict_words(evaluation.record)}", flush=True)
        try:
            self.evaluations[suite] = gate.publish(evaluation, prepared, settings)
        except KeyboardInterrupt:
            self.evaluations[suite] = replace(evaluation, messages=(*evaluation.messages, gate.INTERRUPTED))

    def require_updatable(self) -> None:
        """Refuse to update a baseline in CI, without a reason, and where workers each run a part of the suite."""
        gate.refuse_update(self.config.getoption("fairness_reason"))
        if self.config.getoption("numprocesses", None) or hasattr(self.config, "workerinput"):
            raise BaselineError(
                "a baseline is not updated by a run that is spread over workers.",
                where="--fairness-update-baseline with -n",
                remedy="run without -n, or `fairgate baseline update SUITE --reason TEXT`",
            )

    def keep_baselines(self) -> bool:
        """Save every suite of this run as its baseline; whether all were. A refusal becomes a message of its suite."""
        saved = bool(self.evaluations)
        for name, evaluation in self.evaluations.items():
            try:
                lines = self._keep(name, evaluation)
            except BaselineError as error:
                saved, lines = False, [f"the baseline was not updated: {error}"]
            self.evaluations[name] = replace(evaluation, messages=(*evaluation.messages, *lines))
        return saved

    def _keep(self, name: str, evaluation: gate.Evaluation) -> list[str]:
        prepared, option = self.prepared[name], self.config.getoption
        missing = [planned.item for planned in prepared.everything if (name, planned.item) not in self.ran]
        if missing:
            raise BaselineError(
                f"only a part of the suite was run: {len(missing)} of {len(prepared.everything)} items were not "
                f"({', '.join(missing[:3])}{', ...' if len(missing) > 3 else ''}).",
                where=f"suite {name}",
                remedy="run the whole suite: without -k, -m, -x, --deselect or a node id",
            )
        return gate.keep_baseline(
            evaluation, prepared, reason=option("fairness_reason"), force=option("fairness_force")
        )

    def _progress(self, what: str, done: int, total: int) -> None:
        reporter = self.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None and reporter.isatty:
            reporter.rewrite(f"fairgate: {what}: {done:,}/{total:,} images ", erase=True)
