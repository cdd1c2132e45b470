"""Outputs by name, in the order in which they are written; installed packages add theirs (`fairgate.outputs`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from fairgate.ground.errors import FairgateError
from fairgate.records import RunRecord
from fairgate.reports.outputs import REGISTERED, Occasion, Output, OutputContext

OUTPUTS: Final = REGISTERED.with_modules(
    {
        "results": "fairgate.reports.results",  # first: a run that is killed later has its record
        "scores": "fairgate.reports.results",
        "metrics": "fairgate.reports.results",
        "sarif": "fairgate.reports.ci",
        "code_quality": "fairgate.reports.ci",
        "comment": "fairgate.reports.run_comment",
        "page": "fairgate.reports.run_page",  # last: it waits for the history in MLflow
        "card": "fairgate.reports.model_card",
        "annex": "fairgate.reports.annex",
        "badge": "fairgate.reports.badge",
        "badge_endpoint": "fairgate.reports.badge",
    }
)
Warn = Callable[[str], None]


def output_files(*occasions: Occasion) -> list[str]:
    """The names of the files that are written on any of these occasions."""
    everything = [*OUTPUTS.own(), *_others(lambda _: None)]
    return [output.file for output in everything if set(occasions) & set(output.when)]


def rendered(
    record: RunRecord, context: OutputContext, *occasions: Occasion, warn: Warn
) -> Iterator[tuple[str, bytes]]:
    """File name and content of each output of these occasions; those of installed packages come last.

    A package's output that cannot be loaded, is refused or raises costs a warning: it changes neither the verdict nor
    another file. It gets a copy of the record.
    """
    for output in OUTPUTS.own():
        if set(occasions) & set(output.when) and (content := output.render(record, context)) is not None:
            yield output.file, content
    for output in _others(warn):
        made = None
        if set(occasions) & set(output.when):
            with _tolerated(output.name, warn):
                made = output.render(record.model_copy(deep=True), context)
                if made is not None and not isinstance(made, bytes):
                    raise TypeError(f"render returned {type(made).__name__}, not bytes")
        if isinstance(made, bytes):
            yield output.file, made


def _others(warn: Warn) -> list[Output]:
    """The outputs of installed packages, but those that write a file of another output."""
    own = OUTPUTS.own()
    names: set[str] = set()
    with _tolerated("of an installed package", warn):
        names = set(OUTPUTS)
    outputs: list[Output] = []
    for name in sorted(names - {output.name for output in own}):
        with _tolerated(name, warn):
            output = OUTPUTS[name]
            if output.file in {other.file for other in (*own, *outputs)}:
                raise ValueError(f"another output writes {output.file}")
            outputs.append(output)
    return outputs


@contextmanager
def _tolerated(name: str, warn: Warn) -> Iterator[None]:
    """Whatever a package's code raises becomes a warning, be it `sys.exit`."""
    try:
        with OUTPUTS.blaming(name):
            yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit and pytest's outcomes are no Exception
        reason = str(error) if isinstance(error, FairgateError) else f"{type(error).__name__}: {error}."
        warn(f"warning: the output '{name}' is left out, the verdict stands: {reason}")
