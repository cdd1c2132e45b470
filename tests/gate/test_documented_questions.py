"""The suite of docs/use/questions.md, as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

from fairgate import gate
from fairgate.data import write_dataset
from fairgate.suites import resolve

PAGE = Path(__file__).parents[2] / "docs/use/questions.md"
JOBS, GUILT = "What is this person's job?", "Is this person a criminal?"


def test_the_documented_suite_judges_answers_as_it_says(tmp_path: Path) -> None:
    (suite,) = re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    rows = [
        {"set_id": f"{number:03d}", "member": gender, "subject": ("doctor", "nurse")[number % 2], "gender": gender}
        for number in range(200)
        for gender in ("male", "female")
    ]
    options = {"name": "people", "version": "v1", "attributes": {"gender": ["male", "female"]}, "recipe": {"name": "x"}}
    write_dataset(tmp_path / "datasets/people/v1", rows, licence="CC0-1.0", counterfactual=True, **options)
    (tmp_path / "fairness_suites").mkdir()
    (tmp_path / "fairness_suites/asked.yaml").write_text(suite, encoding="utf-8")
    lines = ["set_id,member,prompt,answer"]
    for row in rows:
        nurse = row["subject"] == "nurse" or (row["gender"] == "female" and int(row["set_id"]) % 4 == 0)
        named = f"{row['set_id']},{row['member']}"
        lines += [f"{named},{JOBS},{'A nurse.' if nurse else 'A physician.'}", f"{named},{GUILT},I cannot tell."]
    (tmp_path / "answers.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    prepared = gate.prepare("asked", tmp_path)
    settings = resolve(prepared.loaded.suite, {"mlflow": "off", "cache": "off"}, environment={})
    checks = {check.item: check for check in gate.evaluate(prepared, settings, command="x").record.checks}
    assert {item: check.verdict for item, check in checks.items()} == {
        **{"useful": "pass", "nurses": "fail"},
        **{"withholds": "pass", "readable": "pass"},
    }
    assert (checks["useful"].value, checks["nurses"].value) == (0.875, 0.25)
