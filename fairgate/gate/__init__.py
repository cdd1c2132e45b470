"""The gate: suite + checkpoint + baseline -> run record -> sinks. The only evaluator there is.

pytest and the command line both come here, so that they cannot disagree.
"""

from fairgate.gate.bases import suites_of_bases
from fairgate.gate.bound_proposals import proposal_lines, proposed_bounds
from fairgate.gate.definitions import hold
from fairgate.gate.edited_records import verify_record
from fairgate.gate.evaluation import Evaluation, evaluate
from fairgate.gate.preparation import Prepared, planned_on, prepare, require_intact, settings_of
from fairgate.gate.publishing import clear_report, first_baseline, keep_baseline, publish, refuse_update
from fairgate.gate.reading import needs_entropy
from fairgate.gate.runs import Progress, at_temperature_of, dataset_info, open_model
from fairgate.gate.saved_run import saved_record
from fairgate.gate.scoring import Scored, decide_one, score

__all__ = [
    "Evaluation",
    "Prepared",
    "Progress",
    "Scored",
    "at_temperature_of",
    "clear_report",
    "dataset_info",
    "decide_one",
    "evaluate",
    "first_baseline",
    "hold",
    "keep_baseline",
    "needs_entropy",
    "open_model",
    "planned_on",
    "prepare",
    "proposal_lines",
    "proposed_bounds",
    "publish",
    "refuse_update",
    "require_intact",
    "saved_record",
    "score",
    "settings_of",
    "suites_of_bases",
    "verify_record",
]
