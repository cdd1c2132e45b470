"""Notices: sentences on changes to other things than the weights, which reviewers see next to the verdict."""

from __future__ import annotations

from collections.abc import Mapping, Set

from fairgate.baselines import Repository, changed_pointers
from fairgate.gate.preparation import Prepared
from fairgate.models import local_path
from fairgate.records import DatasetInfo, RunRecord


def dataset_notices(
    record: RunRecord, dataset: DatasetInfo, n_images: int, sets: Set[str], sets_then: Set[str], name: str
) -> list[str]:
    """What of the data is not what a record was made on; empty where the content is the same.

    `sets` and `sets_then` are the ids of the dataset's sets now and in the record, `name` what the record serves as.
    """
    then = record.dataset
    if then.fingerprint == dataset.fingerprint:
        return []
    gone, new = len(sets_then - sets), len(sets - sets_then)
    moved = [f"{gone:,} of its {len(sets_then):,} sets are gone"] if gone else []
    moved += [f"{new:,} sets are new"] if new else []
    moved = moved or ["the sets have the same names, and other images or labels"]
    moved += _declared_otherwise(then, dataset)
    return [
        f"dataset: this change is judged on {_named(dataset, len(sets), n_images)}, the {name} was made on "
        f"{_named(then, record.coverage.expected_sets, record.coverage.expected_images)}: {', '.join(moved)}. "
        f"The {name}'s checkpoint was scored again on the new one"
    ]


def _named(dataset: DatasetInfo, sets: int, images: int) -> str:
    return f"{dataset.name}/{dataset.version} ({dataset.fingerprint[:12]}, {sets:,} sets, {images:,} images)"


def _declared_otherwise(then: DatasetInfo, now: DatasetInfo) -> list[str]:
    added = [attribute for attribute in now.attributes if attribute not in then.attributes]
    added += [
        f"{attribute} '{group}'"
        for attribute, groups in now.attributes.items()
        for group in groups
        if attribute in then.attributes and group not in then.attributes[attribute]
    ]
    words = [f"{', '.join(added)} {'is' if len(added) == 1 else 'are'} added to what it records"] if added else []
    if then.counterfactual != now.counterfactual:
        words.append("its sets are counterfactual now" if now.counterfactual else "its sets are not counterfactual now")
    return words


def plugin_notices(name: str, now: Mapping[str, str], before: Mapping[str, str]) -> list[str]:
    """How the installed packages that took part differ from those of the run that `name` (the baseline) records."""
    found = []
    for package in sorted({*now, *before}):
        here, there = now.get(package), before.get(package)
        if here != there:
            found.append(
                f"the package {package} took part {_as(here)}, in the {name}'s run {_as(there)}: metrics, probes and "
                "models of it may give other numbers"
            )
    return found


def _as(plugin: str | None) -> str:
    if plugin is None:
        return "not at all"
    version, _, code = plugin.partition(" sha256:")
    return f"as {version} ({code[:12]})"


def pointer_notices(prepared: Prepared, model: str) -> list[str]:
    """Pointers that are not as at the merge base, but for the candidate's own; empty where there is no merge base."""
    if prepared.compared is None or prepared.compared.commit is None:
        return []
    return changed_pointers(Repository(prepared.root), prepared.compared.commit, local_path(model))
