"""The shipped copy of the JSON schema of results.json; `python -m fairgate.reports.schema` rewrites it."""

from __future__ import annotations

import json
from pathlib import Path

from fairgate.reports.results import results_schema

SCHEMA_FILE = Path(__file__).with_name("results.schema.json")


def schema_text() -> str:
    """The schema as the shipped file holds it."""
    return json.dumps(results_schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    SCHEMA_FILE.write_text(schema_text(), encoding="utf-8")
