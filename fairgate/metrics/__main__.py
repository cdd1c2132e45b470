"""`python -m fairgate.metrics`: write the specs of fairgate's own metrics and probes, which reports read."""

from __future__ import annotations

import json
from dataclasses import asdict

from fairgate.metrics.registry import METRICS
from fairgate.probes import PROBES
from fairgate.records import FILE


def text() -> str:
    """The content of `records/metrics.json`."""
    values = {kind: value for probe in PROBES.own() for kind, value in probe.value_names.items()}
    content = {"metrics": [asdict(metric.spec) for metric in METRICS.own()], "values": values}
    return json.dumps(content, indent=1) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
