"""The shipped copy of the JSON schema of audit.json; `python -m fairgate.audit.schema` rewrites it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fairgate.audit.record import SCHEMA_VERSION, AuditRecord

SCHEMA_FILE = Path(__file__).with_name("audit.schema.json")


def audit_schema() -> dict[str, Any]:
    """The JSON schema (draft 2020-12) of audit.json, as the audit record defines it."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:fairgate:audit:{SCHEMA_VERSION}",
        **AuditRecord.model_json_schema(mode="serialization"),
    }


def schema_text() -> str:
    """The schema as the shipped file holds it."""
    return json.dumps(audit_schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    SCHEMA_FILE.write_text(schema_text(), encoding="utf-8")
