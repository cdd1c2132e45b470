"""The workflows that docs/use/pull-requests.md gives to copy are workflows, and use what the actions offer."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from github_expressions import holds
from github_files import ACTION, PULL, REPORT, ROOT, WORKFLOWS, defaults

PAGE = (ROOT / "docs" / "use" / "pull-requests.md").read_text(encoding="utf-8")
GIVEN = dict(re.findall(r"`(\.github/workflows/[\w-]+\.yml)`:\n\n```yaml\n(.*?)```", PAGE, re.DOTALL))
ACTIONLINT = Path(sys.executable).with_name("actionlint")
OURS = {
    "OWNER/fairgate@COMMIT": ACTION,
    "OWNER/fairgate/.github/actions/report@COMMIT": REPORT / "action.yml",
    "OWNER/fairgate/.github/actions/pull@COMMIT": PULL,
}


def _jobs() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for text in GIVEN.values():
        found |= yaml.safe_load(text)["jobs"]
    return found


def test_both_workflows_are_there() -> None:
    assert sorted(Path(name).name for name in GIVEN) == ["fairness-gate.yml", "fairness-report.yml"]


@pytest.mark.skipif(not ACTIONLINT.exists(), reason="actionlint is not installed here")
def test_actionlint_finds_nothing_in_them(tmp_path: Path) -> None:
    for name, text in GIVEN.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / ".github" / "actionlint.yaml").write_text("self-hosted-runner: {labels: [gpu]}\n", encoding="utf-8")
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    done = subprocess.run([ACTIONLINT], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout + done.stderr == ""


def test_they_use_our_actions_with_inputs_that_these_have_and_others_as_we_pin_them() -> None:
    pinned = {line.split("uses: ")[1].strip() for path in WORKFLOWS for line in path.read_text().splitlines()
              if "uses: actions/" in line}  # fmt: skip
    used = set()
    for line in "".join(GIVEN.values()).splitlines():
        if "uses: " in line:
            used.add(line.split("uses: ")[1].split(" # the ")[0].strip())
    assert set(OURS) <= used
    assert used - set(OURS) <= pinned
    for job in _jobs().values():
        for step in job["steps"]:
            if step.get("uses") in OURS:
                assert set(step.get("with", {})) <= set(defaults(OURS[step["uses"]]))


def test_forks_need_the_label_there_too_and_the_verdict_always_runs() -> None:
    jobs = _jobs()
    head = {"sha": "a1" * 20, "repo": {"full_name": "stranger/models"}}
    for labels, runs in (([], False), (["fairgate/" + "a1" * 20], True), (["fairgate/" + "b2" * 20], False)):
        event = {"pull_request": {"head": head, "labels": [{"name": label} for label in labels]}}
        context = {"github": {"event_name": "pull_request", "repository": "team/models", "event": event}}
        assert holds(jobs["gate"]["if"], context) is runs
    assert holds(jobs["verdict"]["if"], {})
    assert jobs["verdict"]["needs"] == "gate"


def test_the_paths_of_code_owners_are_one_list() -> None:
    owned = (ROOT / "examples/team/.github/CODEOWNERS").read_text(encoding="utf-8")
    settings = (ROOT / "docs/use/pull-requests.md").read_text(encoding="utf-8").partition("**Code owners**")[2]
    assert re.findall(r"^(/\S+)", owned, re.MULTILINE) == re.findall(r"`(/[^`]+)`", settings.partition("\n5. ")[0])
    assert "/.dvc/" in owned


def test_the_scoring_job_there_has_no_secret_and_the_artifact_is_found_by_its_name() -> None:
    jobs = _jobs()
    assert "secrets." not in str(jobs)
    assert jobs["gate"]["permissions"] == {"contents": "read"}
    assert jobs["gate"]["steps"][-1]["with"]["artifact"].startswith("fairness-report")
    assert 'startswith("fairness-report")' in (REPORT / "fetch.sh").read_text(encoding="utf-8")
