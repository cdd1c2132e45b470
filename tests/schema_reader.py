"""Holds a JSON value against a JSON schema, as far as the shipped schemas go. What it does not know is an error."""

from __future__ import annotations

from typing import Any

_KNOWN = {
    *("$defs", "$id", "$ref", "$schema", "additionalProperties", "anyOf", "const", "default", "description"),
    *("discriminator", "enum", "items", "oneOf", "properties", "required", "title", "type"),
}
_TYPES: dict[str, tuple[type, ...]] = {
    **{"object": (dict,), "array": (list,), "string": (str,), "integer": (int,), "number": (int, float)},
    **{"boolean": (bool,), "null": (type(None),)},
}


def faults(value: Any, schema: dict[str, Any], root: dict[str, Any] | None = None, at: str = "$") -> list[str]:
    """Where the value departs from the schema; nothing where it holds."""
    root = schema if root is None else root
    assert set(schema) <= _KNOWN, set(schema) - _KNOWN
    if "$ref" in schema:
        return faults(value, root["$defs"][schema["$ref"].removeprefix("#/$defs/")], root, at)
    either = schema.get("anyOf", schema.get("oneOf"))
    if either is not None:
        held = any(not faults(value, one, root, at) for one in either)
        return [] if held else [f"{at}: none of {len(either)} forms"]
    if ("const" in schema and value != schema["const"]) or ("enum" in schema and value not in schema["enum"]):
        return [f"{at}: {value!r}"]
    kind = schema.get("type")
    if kind is not None and (not isinstance(value, _TYPES[kind]) or (isinstance(value, bool) and kind != "boolean")):
        return [f"{at}: no {kind}"]
    if kind == "array":
        return [one for i, item in enumerate(value) for one in faults(item, schema["items"], root, f"{at}[{i}]")]
    return _members(value, schema, root, at) if kind == "object" else []


def _members(value: dict[str, Any], schema: dict[str, Any], root: dict[str, Any], at: str) -> list[str]:
    found = [f"{at}: lacks {name}" for name in schema.get("required", ()) if name not in value]
    properties, others = schema.get("properties", {}), schema.get("additionalProperties", True)
    for name, member in value.items():
        if name in properties:
            found += faults(member, properties[name], root, f"{at}.{name}")
        elif isinstance(others, dict):
            found += faults(member, others, root, f"{at}.{name}")
        elif not others:
            found.append(f"{at}: {name} is not known")
    return found
