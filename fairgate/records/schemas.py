"""JSON schemas of the record files, and their shipped copies: `python -m fairgate.records.schemas` writes them anew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from fairgate.records.comparison import AuditCollection, AuditRecord
from fairgate.records.parts import RecordPart
from fairgate.records.run import RunRecord
from fairgate.records.study import PowerRecord, StudyRecord

RECORDS: Final[dict[str, type[RecordPart]]] = {
    "results": RunRecord,
    "audit": AuditRecord,
    "audits": AuditCollection,
    "power": PowerRecord,
    "study": StudyRecord,
}
"""Records by the name of the file that holds them, without `.json`."""


def schema_of(name: str) -> dict[str, Any]:
    """The JSON schema (draft 2020-12) of one of the files above, as its record defines it."""
    record = RECORDS[name]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:fairgate:{name}:{record.model_fields['schema_version'].default}",
        **record.model_json_schema(mode="serialization"),
    }


def schema_file(name: str) -> Path:
    """The shipped copy of a schema."""
    return Path(__file__).with_name(f"{name}.schema.json")


def schema_text(name: str) -> str:
    """A schema as its shipped copy holds it."""
    return json.dumps(schema_of(name), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for each in RECORDS:
        schema_file(each).write_text(schema_text(each), encoding="utf-8")
