"""`fairgate suite` and `fairgate init`: write a first suite, and what else makes a gate of it; a reader's errors."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import typer

from fairgate import data, models, probes, suites
from fairgate.ground.errors import SettingsError, SuiteError
from fairgate.interfaces.cli import options
from fairgate.interfaces.cli.console import echo_prose, progress_line, writing

if TYPE_CHECKING:
    from fairgate.data import TextRows

suite_app = typer.Typer(no_args_is_help=True, help="Write suites.")

_Beside = Annotated[
    list[str] | None,
    typer.Option(help="A label that an image may be taken for and does not show, `nurse` for `doctor`. Repeatable."),
]
_Tolerates = Annotated[
    float | None,
    typer.Option(help="Loss that you tolerate, the margin of checks. Default: 0.03 to 0.05, as images can decide."),
]
_Measured = Annotated[
    bool | None,
    typer.Option(help="Simulate which checks the images can decide. Default: of tables, and of at most 1,000 images."),
]


@suite_app.command()
def schema(out: Annotated[Path | None, typer.Option(help="Write to this file instead.")] = None) -> None:
    """The JSON schema of suite files, for editors."""
    text = json.dumps(suites.Suite.model_json_schema(by_alias=True), indent=2) + "\n"
    if out is None:
        typer.echo(text, nl=False)
    else:
        with writing("the schema", f"--out {out}"):
            out.write_text(text, encoding="utf-8")


@suite_app.command()
def new(  # noqa: PLR0913, PLR0917 - an option is a parameter
    name: Annotated[str, typer.Argument(help="Name of the suite, and of its file in fairness_suites/.")],
    dataset: Annotated[str, typer.Option(help="A dataset in fairness_data/, for example `faces` or `faces@v1`.")],
    model: Annotated[str, typer.Option(help="URI of the checkpoint to judge, such as open_clip:ARCH@FILE.")],
    baseline: Annotated[
        str | None,
        typer.Option(help="What to compare with. Default: the default branch, of `origin` if there is such a remote."),
    ] = None,
    truth: Annotated[str | None, typer.Option(help="Attribute to classify, if all images show one subject.")] = None,
    beside: _Beside = None,
    tolerates: _Tolerates = None,
    like: options.Like = None,
    views: Annotated[
        int, typer.Option(min=1, max=64, help="Views of each image, whose mean shows smaller losses, such as 16.")
    ] = 1,
    min_sets: Annotated[
        int, typer.Option(min=2, help="Sets of a group below which the suite gives no verdict on it.")
    ] = data.MIN_SETS,
    question: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="The question of a table of answers, if the table does not name it."),
    ] = None,
    measured: _Measured = None,
    root: options.Root = Path(),
) -> None:
    """Write a first suite for a dataset, with the checks that its images can decide; others are watched. An existing
    file is never replaced."""
    from fairgate.interfaces.suite_writing import SuiteOptions, first_suite, write_suite

    root = root.resolve()
    wanted = SuiteOptions(
        dataset, model, baseline, truth, beside or (), tolerates, like or (), views, min_sets, question, measured
    )
    with progress_line() as progress:
        first = first_suite(name, root, wanted, progress)
    echo_prose(first.lines)
    path = write_suite(name, root, first.text)
    echo_prose([f"wrote {path.relative_to(root)}: read it, and set its bounds. On the main branch, keep a baseline:"])
    typer.echo(f'  fairgate baseline update {name} --reason "the first one"')
    typer.echo(f"Commit it, and judge every change: fairgate check {name}")


@suite_app.command()
def reader(
    name: Annotated[str, typer.Argument(help="A suite with a probe `generation`, or `image_editing` and `watched`.")],
    dataset: Annotated[
        str | None, typer.Argument(help="A release whose pictures show known groups: `people`, `people@v1`.")
    ] = None,
    probe: Annotated[
        str | None, typer.Option(help="The probe, where the suite has several; of edits PROBE.ATTRIBUTE.")
    ] = None,
    device: options.Device = None,
    root: options.Root = Path(),
) -> None:
    """How often the reader of generated or edited pictures is wrong: its `measured:`, from pictures of known groups.

    Without a dataset: the reader's `fingerprint:`.
    """
    root = root.resolve()
    loaded = suites.load_suite(suites.suite_path(name, root), root)
    release = data.open_dataset(dataset or loaded.suite.dataset, data.releases_folder(root))
    readers = _readers(loaded.suite)
    if not readers:
        raise SuiteError(
            f"no probe of suite '{name}' has a reader whose error can be measured.",
            where=loaded.where("probes"),
            remedy="name a suite with a probe `generation` and `reader`, or `image_editing` and `watched`",
        )
    if len(readers) != 1 if probe is None else probe not in readers:
        raise SuiteError(
            f"which probe's reader? Probes of suite '{name}' with one: {', '.join(readers)}.",
            where=loaded.where("probes"),
            remedy="name one of them with --probe; a table of labels has no reader, and is measured by who made it",
        )
    key = probe or next(iter(readers))
    (chosen, over), place = readers[key], loaded.where("probes", key.partition(".")[0])
    open_reader = partial(models.open_scorer, device=device or "auto", base=root)
    if dataset is None:
        typer.echo(f"fingerprint: {open_reader(chosen.model, release).fingerprint}")
        return
    probes.dataset_has(chosen.attribute, f"the reader of probe '{key}' perceives", release.manifest, place)
    if over is not None:
        probes.dataset_has(over, f"'{key}' is measured over", release.manifest, place)
    opened = chosen.over(open_reader, release)
    counts = {group: chosen.confusion(opened, truth) for group, truth in _shown(release, chosen.attribute, over)}
    for group, table in counts.items():
        if empty := [label for label, row in table.items() if not sum(row.values())]:
            recorded = ", ".join(release.manifest.attributes[chosen.attribute])
            whose = f" of '{group}'" if group else ""
            raise SuiteError(
                f"dataset '{release.manifest.ref}' has no picture{whose} that shows '{empty[0]}', which the reader "
                "perceives.",
                where=place,
                remedy=f"call the groups as the dataset does: {recorded}",
            )
    typer.echo(f"measured: {json.dumps(counts.get('', counts))}")


def _readers(suite: suites.Suite) -> dict[str, tuple[probes.PictureReader, str | None]]:
    """The readers of a suite's probes, each with the attribute over which its error is measured."""
    readers = dict[str, tuple[probes.PictureReader, str | None]]()
    for key, settings in suite.probes.items():
        if isinstance(settings, probes.GenerationProbe) and settings.reader:
            readers[key] = settings.reader, None
        elif isinstance(settings, probes.ImageEditingProbe):
            for attribute, watched in settings.watched.items():
                readers[f"{key}.{attribute}"] = watched.reader(settings.reader, attribute), watched.over
    return readers


def _shown(release: data.Dataset, attribute: str, over: str | None) -> Iterator[tuple[str, TextRows]]:
    """What each picture shows: by group of `over`, blank for pictures of other groups; or once for all, as ''."""
    truth = release.index.attributes[attribute][:]
    if over is None:
        yield "", truth
        return
    for group in release.manifest.attributes[over]:
        of_group = truth.copy()
        of_group[release.index.attributes[over] != group] = ""
        yield group, of_group


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
    truth: Annotated[str | None, typer.Option(help="Attribute to classify, if all images show one subject.")] = None,
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

    Dataset, checkpoint, branch, and GitHub or GitLab are found, if there is one of each. Existing files are not
    changed, except for lines added to .gitignore: the text is printed instead. An existing suite is used. If something
    is wrong, nothing is written.
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
        from fairgate.interfaces.suite_writing import SuiteOptions, first_suite

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
    ignored = root / ".gitignore"
    before = ignored.read_text(encoding="utf-8") if ignored.is_file() else ""
    if missing := [line for line in suites.IGNORED if line not in before.splitlines()]:
        with writing(".gitignore", str(ignored)):
            ignored.write_text(before + ("\n" if before and before[-1] != "\n" else "") + "\n".join(missing) + "\n")
        typer.echo(f"added to .gitignore: {' '.join(missing)}")
    for path in there:
        typer.echo(f"{path} is there, and stays as it is. Add this to it:\n{files[path]}")


def _print_next_steps(root: Path, gate: suites.Gate, service: str | None, files: Mapping[str, str]) -> None:
    if service == "gitlab":
        typer.echo("name it in .gitlab-ci.yml: include: [{local: .gitlab/fairness-gate.yml}], and read its first lines")
    if not gate.dvc:
        echo_prose(["DVC tracks nothing: a runner has what git tracks. Track dataset and checkpoint with git or DVC"])
    if not gate.dvc and service is not None:
        echo_prose(["with DVC, the workflow must fetch them: track them, delete the workflow, and run this again"])
    if not (root / suites.FOLDER / "baselines" / gate.suite).is_dir():
        typer.echo(f"set the bounds of {suites.FOLDER}/{gate.suite}.yaml, and keep a baseline, on {gate.branch}:")
        typer.echo(f'  fairgate baseline update {gate.suite} --reason "the first one"')
    written = sorted({Path(path).parts[0] for path in files} | {suites.FOLDER, ".gitignore"})  # and no photographs
    typer.echo(f"then commit it on {gate.branch}, and push:")
    typer.echo(f'  git add {" ".join(written)} && git commit -m "A fairness gate" && git push origin {gate.branch}')
    if service is not None:
        echo_prose([_REQUIRED[service]])
