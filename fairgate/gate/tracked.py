"""Sentences about what a change makes of the pointers of DVC, for the record's notices."""

from __future__ import annotations

from fairgate.baselines import Repository
from fairgate.baselines.tracked import changed_pointers
from fairgate.gate.prepare import Prepared
from fairgate.models import local_path


def pointer_notices(prepared: Prepared, model: str) -> list[str]:
    """Pointers that are not as at the merge base, but for the candidate's own; empty where there is no merge base."""
    if prepared.compared is None or prepared.compared.commit is None:
        return []
    return changed_pointers(Repository(prepared.root), prepared.compared.commit, local_path(model))
