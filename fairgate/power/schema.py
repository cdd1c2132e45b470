"""The shipped copy of the JSON schema of power.json; `python -m fairgate.power.schema` rewrites it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fairgate.power.record import SCHEMA_VERSION, PowerRecord

SCHEMA_FILE = Path(__file__).with_name("power.schema.json")


def power_schema() -> dict[str, Any]:
    """The JSON schema (draft 2020-12) of power.json, as the power record defines it."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:fairgate:power:{SCHEMA_VERSION}",
        **PowerRecord.model_json_schema(mode="serialization"),
    }


def schema_text() -> str:
    """The schema as the shipped file holds it."""
    return json.dumps(power_schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    SCHEMA_FILE.write_text(schema_text(), encoding="utf-8")
