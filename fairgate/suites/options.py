"""The options that pytest, environment, suite files and command line share. Imports nothing: pytest reads it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Option:
    """One option: its name without prefix, its choices and its default."""

    name: str
    help: str
    metavar: str
    choices: tuple[str, ...] = ()
    default: str | None = None
    in_ini: bool = True
    """Whether an ini file may name it: a branch brings its own."""

    @property
    def flag(self) -> str:
        """The pytest option."""
        return f"--fairness-{self.name}"

    @property
    def ini(self) -> str:
        """The ini twin."""
        return f"fairness_{self.name.replace('-', '_')}"

    @property
    def environment(self) -> str:
        """The environment variable."""
        return f"FAIRGATE_{self.name.replace('-', '_').upper()}"


OPTIONS = {
    option.name: option
    for option in (
        Option("model", "checkpoint to judge (default: the suite's `model:`)", "URI"),
        Option(
            "baseline",
            "what to compare with: git:REF, file:PATH, mlflow:latest, mlflow:RUN_ID, model:URI or none "
            "(default: the suite's)",
            "SPEC",
        ),
        Option(
            "base",
            "branch whose definition of the gate counts too, such as origin/main, or none; several by spaces "
            "(default: the base of a pull request on GitHub or GitLab; else REF of a `git:REF` baseline, else the "
            "default branch)",
            "REF",
            in_ini=False,
        ),
        Option(
            "report",
            "write results.json, report.html, comment.md and scores.parquet here (of several suites: in a folder each)",
            "DIR",
        ),
        Option("mlflow", "tracking URI, or off", "URI|off", default="sqlite:///fairgate.db"),
        Option("wandb", "project of Weights & Biases, or off", "[ENTITY/]PROJECT|off", default="off", in_ini=False),
        Option("on-inconclusive", "does thin evidence fail the gate?", "fail|warn", ("fail", "warn"), "fail"),
        Option("device", "where to run models", "cuda|cpu|auto", ("cuda", "cpu", "auto"), "auto"),
        Option("cache", "folder for embeddings, or off", "DIR|off"),
    )
}
