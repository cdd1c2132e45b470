"""pytest tells a GitHub runner what `fairgate check` does: annotations, and a section of the summary per suite."""

from __future__ import annotations

import subprocess

from github_files import machine
from toy_repository import SUITE, Toy
from warm_python import warm_python

from fairgate.reports import job_summary, read_results


def test_suites_follow_one_another_on_the_summary_page(toy: Toy) -> None:
    toy.write_suite(SUITE.replace("suite: jobs", "suite: again"), "again")
    page = toy.root / "summary.md"
    words = [warm_python(), "-m", "pytest", "-q", "-p", "no:cacheprovider", "--fairness-suite", "all"]
    words += ["--fairness-model", "scores:biased.csv?values=logit", "--fairness-report", "out"]
    env = {**machine(), "GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(page), "FAIRGATE_MLFLOW": "off"}
    done = subprocess.run(words, cwd=toy.root, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    records = [read_results(toy.root / "out" / name / "results.json") for name in ("again", "jobs")]
    assert page.read_text(encoding="utf-8") == "".join(f"{job_summary(record)}\n" for record in records)
    for name in ("again", "jobs"):
        assert f"::error title={name} gaps[doctor]" in done.stdout
