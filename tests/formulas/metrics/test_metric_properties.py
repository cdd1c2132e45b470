"""One table of what every metric must not depend on, how it follows its input, and where it must say "alike"."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nightly import EVERYTHING
from property_laws import Law, Metric
from property_others import OTHERS
from property_pictures import PICTURES
from property_rankings import RANKINGS

from fairgate.formulas import metrics

TABLE = [*RANKINGS, *OTHERS, *PICTURES]
EXAMPLES = 40 if EVERYTHING else 10
LINES = [(metric, law) for metric in TABLE for law in metric.laws]


@pytest.mark.parametrize(("metric", "law"), LINES, ids=[f"{metric.name}: {law.name}" for metric, law in LINES])
def test_the_law_holds_for_the_metric(metric: Metric, law: Law) -> None:
    @settings(max_examples=EXAMPLES, deadline=None, database=None)
    @given(data=st.data(), values=metric.inputs)
    def holds(data: st.DataObject, values: object) -> None:
        law.check(data.draw, metric, values)

    holds()


def test_every_public_metric_stands_in_the_table() -> None:
    public = {name for name in metrics.__all__ if not (name.isupper() or isinstance(getattr(metrics, name), type))}
    assert public == {metric.name.split(",")[0] for metric in TABLE}
    assert all(metric.laws for metric in TABLE)
