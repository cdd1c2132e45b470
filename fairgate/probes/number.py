"""A number of every image that somebody measured: an association, a similarity, a rating (iEAT, GenderBias-VL)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field

from fairgate.models import Capability, MeasuringModel
from fairgate.probes.answers import ProbeScores, Rows
from fairgate.probes.contract import OpenInstrument, Probe, register
from fairgate.probes.settings import Text


@register
class NumberProbe(Probe):
    """Take the number that a table has for every image. Every image needs one: a row that is missing is an error."""

    needs: ClassVar[Capability] = "measure"
    answers_as: ClassVar[str] = "number"
    value_names: ClassVar[Mapping[str, str]] = {"number": "number"}

    kind: Literal["number"]
    column: Text = Field(default="number", description="The column of the table.")

    def utility_check(self, name: str) -> str | None:
        """That numbers still tell images apart as the baseline's do."""
        return f"id: still-useful, probe: {name}, metric: number_agreement"

    def run(
        self, name: str, model: MeasuringModel, rows: Rows, open_instrument: OpenInstrument
    ) -> dict[str, ProbeScores]:
        """The column."""
        return {name: ProbeScores(model.measure(self.column))}
