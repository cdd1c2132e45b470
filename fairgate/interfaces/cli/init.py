"""`fairgate init`: a gate in a repository that has a dataset and a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import typer

from fairgate import suites
from fairgate.ground.errors import SettingsError
from fairgate.interfaces.cli import options
from fairgate.interfaces.cli.console import writing
from fairgate.interfaces.suite_writing import SuiteOptions, first_suite

T = TypeVar("T")
_REQUIRED = {
    "github": "then make it count: Settings > Rules > Rulesets: require the status check `verdict`",
    "gitlab": "then make it count: Settings > Merge requests: pipelines must succeed",
}
"""The last step: a check that nobody requires stops no merge."""


def init(
    name: Annotated[str, typer.Argument(help="Name of the suite; left out, the dataset's.")] = "",
    dataset: Annotated[str | None, typer.Option(help="The dataset; left out, the one in fairness_data/.")] = None,
    model: Annotated[str | None, typer.Option(help="URI of the checkpoint; left out, the one that is found.")] = None,
    truth: Annotated[str | None, typer.Option(help="Attribute to classify, where all images show one subject.")] = None,
    ci: Annotated[
        Literal["auto", "github", "gitlab", "none"], typer.Option(help="Where the gate runs; auto: by the remote.")
    ] = "auto",
    fairgate: Annotated[
        str | None,
        typer.Option(
            help="OWNER/fairgate@COMMIT that the gate runs; left out, what pip installed from GitHub or a clone of it."
        ),
    ] = None,
    runner: Annotated[
        str, typer.Option(help="Labels of a GitHub runner of your own, `self-hosted,linux,gpu`.")
    ] = "ubuntu-24.04",
    hook: Annotated[bool, typer.Option(help="Also a hook of pre-commit, which judges before a push.")] = True,
    dockerfile: Annotated[bool, typer.Option(help="Also fairness.Dockerfile, an image with fairgate.")] = False,
    root: options.Root = Path(),
) -> None:
    """Write a first suite, workflows with the rules of docs/evidence/trust.md, a hook, and lines of .gitignore.

    What can be seen is not asked: dataset, checkpoint, branch, GitHub or GitLab. A file that is there is never changed,
    but for lines added to .gitignore: its text is printed instead, and a suite that is there is the gate's. Nothing is
    written where something is wrong.
    """
    root = root.resolve()
    unknown: list[SettingsError] = []
    kept = name and dataset is None and model is None and (root / suites.FOLDER / f"{name}.yaml").is_file()
    if not kept:
        dataset = dataset or _looked_up(unknown, lambda: suites.find_dataset(root))
        model = model or _looked_up(unknown, lambda: suites.find_checkpoint(root))
    branch, _remote = _looked_up(unknown, lambda: suites.find_branch(root)) or ("", False)
    service = _looked_up(unknown, lambda: suites.find_service(root)) if ci == "auto" else None if ci == "none" else ci
    pins = ci != "none" or dockerfile
    pinned = _looked_up(unknown, lambda: suites.find_pin(fairgate)) or ("", "") if pins else ("", "")
    if unknown:
        raise _one_error(unknown)
    name = name or (dataset or "").partition("@")[0]
    dvc = any(root.glob("*.dvc")) or (root / "dvc.lock").exists()
    gate = suites.Gate(name, branch, *pinned, runner=runner, dvc=dvc)
    files = suites.gate_files(gate, service, hook=hook, dockerfile=dockerfile)
    if dataset is not None and model is not None:
        wanted = SuiteOptions(dataset, model, truth=truth)
        files = {f"{suites.FOLDER}/{name}.yaml": first_suite(name, root, wanted).text, **files}
    _require_plain(root, [*files, ".gitignore"])
    _write_files(root, files)
    _print_next_steps(root, gate, service, files)


def _looked_up(unknown: list[SettingsError], find: Callable[[], T]) -> T | None:
    """What can be seen of the repository; None, and the error among those that are `unknown`, where it cannot."""
    try:
        return find()
    except SettingsError as error:
        unknown.append(error)
        return None


def _one_error(unknown: Sequence[SettingsError]) -> SettingsError:
    """One error of everything that has to be said, so that one try says it all."""
    if len(unknown) == 1:
        return unknown[0]
    problems, remedies = (
        list(filter(None, texts)) for texts in zip(*((e.problem, e.remedy) for e in unknown), strict=True)
    )
    where = ", ".join(dict.fromkeys(e.where for e in unknown if e.where))
    numbered = " ".join(f"{number}. {text}" for number, text in enumerate(problems, 1))
    remedy = "; ".join(f"{number}. {text}" for number, text in enumerate(remedies, 1))
    return SettingsError(f"{len(unknown)} things cannot be seen: {numbered}", where=where, remedy=remedy)


def _require_plain(root: Path, paths: Sequence[str]) -> None:
    """Raises SettingsError where a link of the checkout would lead what is written somewhere else."""
    for path in paths:
        steps = [root / path, *(root / path).parents]
        if linked := [step for step in steps[: len(Path(path).parts)] if step.is_symlink()]:
            raise SettingsError(
                "a file that is to be written is behind a link.",
                where=str(linked[-1]),
                remedy="remove the link, or write the file yourself",
            )


def _write_files(root: Path, files: Mapping[str, str]) -> None:
    """Write what is not there, and print what is; complete .gitignore."""
    there = [path for path in files if (root / path).exists()]
    for path, text in files.items():
        if path not in there:
            with writing(path, str(root / path)):
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text, encoding="utf-8")
            typer.echo(f"wrote {path}")
    if added := _ignored(root):
        typer.echo(f"added to .gitignore: {' '.join(added)}")
    for path in there:
        typer.echo(f"{path} is there, and stays as it is. This belongs into it:\n{files[path]}")


def _print_next_steps(root: Path, gate: suites.Gate, service: str | None, files: Mapping[str, str]) -> None:
    if service == "gitlab":
        typer.echo("name it in .gitlab-ci.yml: include: [{local: .gitlab/fairness-gate.yml}], and read its first lines")
    if not gate.dvc:
        typer.echo("nothing is tracked by DVC: the runner has what git has, so track dataset and checkpoint with one")
    if not gate.dvc and service is not None:
        typer.echo("with DVC the workflow also fetches them: track them, delete the workflow, and run this again")
    if not (root / suites.FOLDER / "baselines" / gate.suite).is_dir():
        typer.echo(f"set the bounds of {suites.FOLDER}/{gate.suite}.yaml, and keep a baseline, on {gate.branch}:")
        typer.echo(f'  fairgate baseline update {gate.suite} --reason "the first one"')
    written = sorted({Path(path).parts[0] for path in files} | {suites.FOLDER, ".gitignore"})  # and no photographs
    typer.echo(f"then commit it on {gate.branch}, and push:")
    typer.echo(f'  git add {" ".join(written)} && git commit -m "A fairness gate" && git push origin {gate.branch}')
    if service is not None:
        typer.echo(_REQUIRED[service])


def _ignored(root: Path) -> list[str]:
    """Add what is missing to .gitignore."""
    path = root / ".gitignore"
    before = path.read_text(encoding="utf-8") if path.is_file() else ""
    missing = [line for line in suites.IGNORED if line not in before.splitlines()]
    if missing:
        with writing(".gitignore", str(path)):
            path.write_text(before + ("\n" if before and before[-1] != "\n" else "") + "\n".join(missing) + "\n")
    return missing
