"""A step that runs the gate and goes on whatever it says is found, with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairgate.gate.selftest.workflows import look_at_workflows

ROOT = Path(__file__).parents[3]


def workflow(root: Path, text: str, name: str = "gate.yml") -> None:
    folder = root / ".github" / "workflows"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")


def job(step: str, more: str = "") -> str:
    return f"on: push\njobs:\n  gate:\n    runs-on: x\n{more}    steps:\n      - uses: actions/checkout@v6\n{step}"


RUN = "      - run: pytest --fairness-suite jobs"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (job(f"{RUN} || true\n"), "after `||`"),
        (job(f"{RUN} | tee log\n"), "pipe hides"),
        (job(f"{RUN}\n        continue-on-error: true\n"), "continue-on-error"),
        (job(f"{RUN}\n", "    continue-on-error: true\n"), "continue-on-error"),
        (job(f"{RUN}\n        continue-on-error: ${{{{ inputs.lenient }}}}\n"), "continue-on-error"),
        (
            job("      - run: |\n          fairgate check jobs || status=$?\n          [ $status -eq 3 ] && exit 0\n"),
            "exit code 3",
        ),
        (
            job("      - run: |\n          fairgate check jobs\n          case $? in 0|3) exit 0;; esac\n"),
            "exit code 3",
        ),
        (job("      - run: |\n          fairgate check jobs \\\n            --device cpu | tee log\n"), "pipe hides"),
        (job("      - uses: ours/fairgate@abc\n        continue-on-error: true\n"), "continue-on-error"),
        (job("      - uses: OWNER/fairgate@COMMIT\n        with: {suite: jobs}\n"), "finds no action"),
        (job(f"{RUN} | tee log\n        shell: sh\n"), "pipe hides"),
    ],
)
def test_an_exit_code_that_is_lost_is_trouble(tmp_path: Path, text: str, says: str) -> None:
    workflow(tmp_path, text)
    (one,) = look_at_workflows(tmp_path)
    assert one.level == "trouble"
    assert says in one.what
    assert one.where == ".github/workflows/gate.yml, job gate, step 2"
    assert one.remedy


@pytest.mark.parametrize(
    "text",
    [
        job(f"{RUN}\n"),
        job(f"{RUN} | tee log\n        shell: bash\n"),
        job(f"{RUN} | tee log\n", "    defaults: {run: {shell: bash}}\n"),
        job("      - run: |\n          set -o pipefail\n          pytest --fairness-suite jobs | tee log\n"),
        job(f"{RUN} -k 'a|b' # | no pipe\n"),
        job("      - uses: ./\n        with: {suite: jobs}\n"),
        job(f"{RUN}\n      - run: echo done || true\n"),
        job(f"{RUN}\n        continue-on-error: false\n"),
        job("      - run: |\n          fairgate check jobs --device=3 # 3) no\n          echo 3\n"),
        job("      - run: |\n          cd x && fairgate check jobs > log 2>&1\n"),
        job("      - run: |\n          '$ENV/bin/fairgate' check jobs # || true\n"),
    ],
)
def test_an_exit_code_that_gets_through_is_fine(tmp_path: Path, text: str) -> None:
    workflow(tmp_path, text)
    (one,) = look_at_workflows(tmp_path)
    assert (one.level, one.what) == ("ok", "1 step(s) run the gate, and its exit code gets through")


@pytest.mark.parametrize(
    ("script", "part"),
    [
        ("fairgate check jobs || status=$?", "fairgate check jobs || status=$?"),
        ("if fairgate check jobs; then echo x; fi", "if fairgate check jobs; then echo x; fi"),
        ("! fairgate check jobs", "! fairgate check jobs"),
        ('echo "a" $(fairgate check jobs)', "echo a $(fairgate check jobs)"),
        ("fairgate check jobs &", "fairgate check jobs &"),
        ("set +e\n          fairgate check jobs", "set +e"),
        ("trap 'exit 0' EXIT\n          fairgate check jobs", "trap"),
    ],
)
def test_a_part_that_is_not_judged_is_named(tmp_path: Path, script: str, part: str) -> None:
    workflow(tmp_path, job(f"      - run: |\n          {script}\n"))
    (one,) = look_at_workflows(tmp_path)
    assert one.level == "warning"
    assert f"not judged: `{part}` is no plain command" in one.what
    assert one.where == ".github/workflows/gate.yml, job gate, step 2"


@pytest.mark.parametrize(
    "command",
    [
        "dvc pull",
        ".venv/bin/dvc pull --quiet datasets.dvc",
        '"$RUNNER_TEMP/dvc/bin/dvc" --verbose pull',
        "python -m dvc fetch && echo done",
        "dvc repro",
        "(cd x; dvc exp run)",
        'sh -c "dvc pull"',
        "echo a; dvc pull",
    ],
)
@pytest.mark.parametrize("gate", [RUN, "      - uses: ours/fairgate@abc"])
def test_dvc_on_a_pull_requests_own_configuration_is_trouble(tmp_path: Path, command: str, gate: str) -> None:
    text = job(f"      - run: |\n          python -m venv .venv\n          {command}\n{gate}\n")
    workflow(tmp_path, text.replace("on: push", "on: [push, pull_request]"))
    (one,) = look_at_workflows(tmp_path)
    assert one.level == "trouble"
    assert ".dvc/config" in one.what
    assert "fairgate dataset pull" in (one.remedy or "")
    assert one.where == ".github/workflows/gate.yml, job gate, step 2"
    workflow(tmp_path, text)  # of main, whose configuration counts
    assert look_at_workflows(tmp_path)[0].level == "ok"


@pytest.mark.parametrize(
    "command", ["fairgate dataset pull", "pip install dvc # then dvc pull", "dvc status", "echo dvc pull", "dvc add x"]
)
def test_what_does_not_run_dvc_on_it_is_fine(tmp_path: Path, command: str) -> None:
    text = job(f"      - run: {command!r}\n{RUN}\n").replace("on: push", "on: pull_request")
    workflow(tmp_path, text)
    assert look_at_workflows(tmp_path)[0].level == "ok"


def test_a_job_of_its_own_may_run_dvc_and_hand_over_an_artifact(tmp_path: Path) -> None:
    text = job(f"{RUN}\n").replace("on: push", "on: pull_request")
    workflow(tmp_path, text.replace("jobs:\n", "jobs:\n  data:\n    steps: [{run: dvc pull}]\n"))
    assert look_at_workflows(tmp_path)[0].level == "ok"


def test_an_action_of_another_repository_is_named_as_not_looked_up(tmp_path: Path) -> None:
    workflow(tmp_path, job("      - uses: acme/fairgate@abc\n        with: {suite: jobs}\n"))
    (finding,) = look_at_workflows(tmp_path)
    assert (finding.level, "acme/fairgate@abc is not looked up" in finding.what) == ("ok", True)


def test_workflows_without_a_gate_and_unreadable_ones_are_told(tmp_path: Path) -> None:
    assert look_at_workflows(tmp_path) == []
    (tmp_path / ".git").mkdir()
    (none,) = look_at_workflows(tmp_path)
    assert (none.level, none.what) == ("warning", "there is no workflow of GitHub that would run the gate.")
    workflow(tmp_path, "jobs: [")
    workflow(tmp_path, "- a list", "other.yaml")
    workflow(tmp_path, "jobs: {a: {steps: 3}, b: 4}", "odd.yaml")
    workflow(tmp_path, "#" * (1 << 21), "large.yml")
    found = look_at_workflows(tmp_path)
    assert {one.level for one in found} == {"warning"}
    assert [one.what for one in found] == ["the workflow cannot be read."] * 3 + ["no workflow runs the gate."]


def test_a_workflow_that_only_tells_of_reports_runs_no_gate(tmp_path: Path) -> None:
    workflow(tmp_path, job("      - uses: ours/fairgate/.github/actions/report@abc\n"))
    workflow(tmp_path, job("      - uses: ours/other@abc\n        with: {suite: jobs}\n"), "other.yml")
    (one,) = look_at_workflows(tmp_path)
    assert one.what == "no workflow runs the gate."


def test_this_repository_runs_its_gate() -> None:
    (one,) = look_at_workflows(ROOT)
    assert one.level == "ok"
