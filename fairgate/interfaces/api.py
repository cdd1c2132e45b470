"""What `import fairgate` offers: gate a checkpoint, compare several, and read what came of it, from Python.

Same evaluation as `fairgate check` and `pytest --fairness-suite`; nothing is printed, and nothing is written unless a
report folder or a tracking server is named.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairgate import data, gate, reports, suites
from fairgate.data import Dataset
from fairgate.interfaces import use_installed_packages
from fairgate.interfaces.suite_writing import SuiteOptions, first_suite, write_repository, write_suite
from fairgate.records import AuditRecord, CheckResult, GroupResult, RunRecord, Verdict
from fairgate.studies import comparison
from fairgate.suites import LoadedSuite

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike

use_installed_packages()

__all__ = [
    "Comparison",
    "Run",
    "RunRecord",
    "check",
    "check_arrays",
    "compare",
    "import_images",
    "load_suite",
    "new_suite",
    "open_dataset",
]

Folder = str | Path
_HEIGHT = 640  # pixels of a page in a notebook


@dataclass(frozen=True, slots=True, repr=False)
class Run:
    """A decided run of a suite: `record` holds all of it, `messages` are lines for a person to read.

    In a notebook it shows itself as the report's page, without pictures.
    """

    record: RunRecord
    messages: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """pass, fail, inconclusive or error."""
        return self.record.verdict

    @property
    def ok(self) -> bool:
        """Whether the gate is open: the checks pass, and no change needs an approval (`record.needs_approval`)."""
        return self.record.ok

    def to_frame(self) -> pd.DataFrame:
        """A row per check, with its value, limits, change, adjusted p and verdict; of groups, a row each as well.

        `group` is empty in the row of the check itself. Numbers that were not measured are NaN.
        """
        import pandas as pd

        rows: list[dict[str, Any]] = []
        for check in self.record.checks:
            shared = {"check": check.id, "subject": check.subject, "word": check.word, "category": check.category}
            shared |= {"against": check.against, "metric": check.metric_with_k}
            shared |= {"probe": check.probe, "over": check.over}
            parts: list[tuple[str, CheckResult | GroupResult]] = [("", check)]
            parts += [(group.group, group) for group in check.groups]
            for group, result in parts:
                measured = {name: getattr(result, name) for name in _MEASURED}
                rows.append({**shared, "group": group, **measured, "bound": check.bound, "verdict": result.verdict})
        numbers = dict.fromkeys((*_MEASURED[:-1], "bound"), "float64")
        return pd.DataFrame(rows).astype(numbers)

    def __repr__(self) -> str:
        """One line: the suite, the verdict, and how many checks have which."""
        return f"Run({self.record.suite}: {reports.verdict_words(self.record)}, {reports.totals(self.record)})"

    def _repr_html_(self) -> str:
        return _framed(reports.render_html(self.record, None))


_MEASURED = ("value", "lo", "hi", "baseline", "delta", "delta_lo", "delta_hi", "p_adjusted", "n_sets")


@dataclass(frozen=True, slots=True, repr=False)
class Comparison:
    """Several models on one suite's probes, in the tables of the papers; nothing is judged."""

    record: AuditRecord

    def to_frame(self) -> pd.DataFrame:
        """Every number of the tables, one a row, as in audit.csv."""
        import io

        import pandas as pd

        return pd.read_csv(io.StringIO(reports.render_csv(self.record)))

    def __repr__(self) -> str:
        """One line: the suite and its models."""
        return f"Comparison({self.record.suite}: {', '.join(model.name for model in self.record.models)})"

    def _repr_html_(self) -> str:
        return _framed(reports.comparison_html(self.record))


def check(  # noqa: PLR0913 - the options of a command
    suite: str,
    *,
    model: str | None = None,
    baseline: str | None = None,
    base: str | None = None,
    root: Folder = ".",
    report: Folder | None = None,
    mlflow: str | None = None,
    wandb: str | None = None,
    on_inconclusive: str | None = None,
    device: str | None = None,
    cache: Folder | None = None,
) -> Run:
    """Judge a checkpoint by a suite of the repository at `root`, as `fairgate check SUITE` does.

    Arguments are the options of that command; what is None comes from the environment, then from the suite. MLflow is
    off unless `mlflow` names a server, W&B unless `wandb` names a project, and no file is written unless `report` names
    a folder. A checkpoint that cannot be read is a run with the verdict `error`; a suite or an option that is wrong
    raises FairgateError.
    """
    folder = Path(root).resolve()
    where = None if report is None else str(report)
    if where is not None:
        gate.clear_report(suite, folder, where, baseline)
    prepared = gate.prepare(suite, folder, suites.named_bases(base))
    settings = gate.settings_of(
        prepared,
        model=model,
        baseline=baseline,
        base=base,
        report=where,
        mlflow=mlflow or "off",
        wandb=wandb or "off",
        on_inconclusive=on_inconclusive,
        device=device,
        cache=None if cache is None else str(cache),
    )
    prepared, settings = gate.hold(prepared, settings)
    evaluation = gate.publish(gate.evaluate(prepared, settings), prepared, settings)
    return Run(evaluation.record, evaluation.messages)


def compare(
    suite: str,
    models: Sequence[str],
    *,
    root: Folder = ".",
    reference: Sequence[str] = (),
    margin: float | None = None,
    k: int | None = None,
    device: str | None = None,
    cache: Folder | None = None,
) -> Comparison:
    """Compare several models on a suite's probes, as `fairgate audit` does. FairgateError for what cannot be read."""
    run = comparison.AuditRun(Path(root).resolve(), device, None if cache is None else str(cache))
    options = comparison.AuditOptions(reference=tuple(reference), margin=margin, k=k)
    return Comparison(comparison.audit_suites([suite], models, options, run).audits[0])


def check_arrays(
    scores: ArrayLike,
    groups: Mapping[str, ArrayLike] | ArrayLike,
    *,
    baseline: ArrayLike,
    margin: float = 0.03,
    min_sets: int = 30,
) -> Run:
    """Judge a number for every image against the `baseline`'s of the same images, by group; needs no git and no files.

    `scores` and `baseline` are (images,), higher is better for a person: 1 for a right answer and 0 for a wrong one, or
    P(true label). `groups` are the perceived groups, (images,), or several such columns by name. A group fails that
    lost more than `margin` (in the scores' unit), one in fewer than `min_sets` images is not judged. The mean of all
    images is compared too; of numbers beyond 0 and 1, whether they rank images as the baseline's do: one number for
    everybody treats all alike.

    Raises SettingsError for arrays of other shapes or values that are not finite.
    """
    import tempfile

    with tempfile.TemporaryDirectory(prefix="fairgate-") as folder:
        write_repository(Path(folder), scores, baseline, groups, margin=margin, min_sets=min_sets)
        run = check("arrays", root=folder, base="none", cache="off")
    return Run(run.record.model_copy(update={"command": ""}), run.messages)  # the folder that it names is gone


def new_suite(  # noqa: PLR0913 - the options of a command
    name: str,
    dataset: str,
    model: str,
    *,
    root: Folder = ".",
    baseline: str | None = None,
    truth: str | None = None,
    beside: Sequence[str] = (),
    tolerates: float | None = None,
    like: Sequence[str] = (),
    views: int = 1,
    min_sets: int = data.MIN_SETS,
    question: str | None = None,
    measured: bool | None = None,
) -> LoadedSuite:
    """Write a first suite to the repository at `root`, as `fairgate suite new` does, whose options the arguments are.

    Raises a FairgateError, also if the suite is there."""
    folder = Path(root).resolve()
    options = SuiteOptions(
        dataset, model, baseline, truth, beside, tolerates, like, views, min_sets, question, measured
    )
    first = first_suite(name, folder, options)
    write_suite(name, folder, first.text)
    return load_suite(name, folder)


def load_suite(name: str, root: Folder = ".") -> LoadedSuite:
    """A suite of the repository at `root`, read and checked. Raises SuiteError."""
    folder = Path(root).resolve()
    return suites.load_suite(suites.suite_path(name, folder), folder)


def open_dataset(name: str, root: Folder = ".") -> Dataset:
    """A released dataset of the repository at `root`: `NAME`, the newest version, or `NAME@vN`. Raises DatasetError."""
    return data.open_dataset(name, data.releases_folder(Path(root).resolve()))


def import_images(  # noqa: PLR0913 - the options of a command
    labels: pd.DataFrame | Folder,
    images: Folder | None,
    name: str,
    *,
    attributes: Sequence[str] | Mapping[str, Sequence[str]] = (),
    subject: str | None = None,
    subject_column: str | None = None,
    image_column: str | None = None,
    set_column: str | None = None,
    member_column: str | None = None,
    cluster: str | None = None,
    bins: Mapping[str, str | Sequence[str]] | None = None,
    merge: Mapping[str, Mapping[str, str]] | None = None,
    licence: str = "unknown",
    version: str = "v1",
    root: Folder = ".",
) -> Dataset:
    """Make a release of the repository at `root`, as `fairgate dataset import` does, of a frame of pandas or of a file.

    `images` is the folder that the paths in `labels` start from; None imports labels alone, or the pictures that the
    table holds (bytes, or Hugging Face's `{"bytes": ..., "path": ...}`). `bins` makes groups of numbers, `{"age":
    "0-19,20-39,40-"}`, and `merge` one group of several, `{"race": {"Latino_Hispanic": "other"}}`. Raises DatasetError.
    """
    grouping = data.ColumnGrouping(
        {column: data.Bins.parse(written) for column, written in (bins or {}).items()}, merge or {}
    )
    releases = data.releases_folder(Path(root).resolve())
    declared = attributes if isinstance(attributes, Mapping) else {attribute: [] for attribute in attributes}
    columns = data.ImportColumns(declared, subject, subject_column, image_column, set_column, member_column, cluster)
    plan = data.plan_import(labels, None if images is None else Path(images), columns, grouping)
    plan.write(name, root=releases, version=version, licence=licence)
    return data.open_dataset(f"{name}@{version}", releases)


def _framed(page: str) -> str:
    """A whole page inside another: its styles stay its own, and its scripts may touch nothing outside."""
    return (
        f'<iframe srcdoc="{html.escape(page, quote=True)}" sandbox="allow-scripts" title="fairgate report" '
        f'style="width:100%;height:{_HEIGHT}px;border:0"></iframe>'
    )
