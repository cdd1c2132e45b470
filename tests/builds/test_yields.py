"""Who failed is counted for every member that was judged, and comes back from a ledger."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from PIL import Image

from fairgate.builds.assemble import PartTally
from fairgate.builds.shard_store import Ledger, SetRecord, record_of
from fairgate.builds.steps import Meter, SetRows, run_steps
from fairgate.builds.steps.perceive import Perceive, Trait
from fairgate.models.generation import Face


class SeesNobodyElse:
    """Takes every face for that of group C."""

    uri, fingerprint, spent = "fake:reader", "0" * 64, Counter[str]()

    def read(self, images: Sequence[Image.Image]) -> list[list[Face]]:
        return [[Face({"race": {"A": 0.1, "B": 0.1, "C": 0.8}})] for _ in images]


def perceived(members: str) -> SetRecord:
    rows: list[dict[str, Any]] = [{"member": m, "race": m, "image": Image.new("RGB", (2, 2))} for m in members]
    sets = [SetRows("s", "doctor", ("s",), rows=rows)]
    [trace] = run_steps([Perceive(SeesNobodyElse(), (Trait("race", {}),))], sets, Meter())
    record = record_of(trace, sets[0], ["race"])
    again = SetRecord.model_validate_json(record.model_dump_json(exclude_defaults=True))
    assert again.trace("doctor") == trace
    return again


def ledger(*records: SetRecord) -> Ledger:
    facts: dict[str, Any] = {"plan": "", "index": 0, "starts": "", "content": "", "file": None, "sha256": None}
    return Ledger(**facts, bytes=0, attributes=["race"], counts={}, seconds=0.0, sets=list(records))


def test_two_members_that_both_fail_in_one_wave_are_both_counted_as_failed() -> None:
    tally = PartTally()
    tally.add(ledger(perceived("ABC"), perceived("BA"), perceived("C")))
    assert tally.failed == {("race", "A"): 2, ("race", "B"): 2}
    assert tally.tried == {("race", "A"): 2, ("race", "B"): 2, ("race", "C"): 2}
    assert (tally.started, tally.kept, tally.reasons) == (3, 1, {"perceived_otherwise": 2})


def test_a_set_is_blamed_on_the_first_member_that_failed() -> None:
    tally = PartTally()
    tally.add(ledger(perceived("CAB")))
    assert tally.blamed == {("perceived_otherwise", "member", "A"): 1, ("perceived_otherwise", "race", "A"): 1}


def test_a_ledger_that_names_one_member_alone_is_read_as_before() -> None:
    record = json.loads(perceived("AB").model_dump_json(exclude_defaults=True))
    assert record.pop("also") == ["B"]
    tally = PartTally()
    tally.add(ledger(SetRecord.model_validate(record)))
    assert tally.failed == {("race", "A"): 1}
