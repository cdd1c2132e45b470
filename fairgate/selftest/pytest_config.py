"""What pytest's own configuration says, read as pytest finds it in a repository's root."""

from __future__ import annotations

import configparser
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

_FILES: Final = (
    ("pytest.ini", "pytest"),
    (".pytest.ini", "pytest"),
    ("pyproject.toml", "tool.pytest.ini_options"),
    ("tox.ini", "pytest"),
    ("setup.cfg", "tool:pytest"),
)


@dataclass(frozen=True, slots=True)
class Ini:
    """The file that configures pytest (None: there is none), its options, and why it could not be read."""

    path: Path | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    broken: str | None = None

    def get(self, name: str) -> str | None:
        """An option's text, or None."""
        return self.options.get(name) or None


def read_ini(root: Path) -> Ini:
    """The first file that has a section for pytest, as pytest chooses it."""
    for name, section in _FILES:
        path = root / name
        if not path.is_file():
            continue
        try:
            options = _toml(path) if path.suffix == ".toml" else _cfg(path, section)
        except (OSError, ValueError, configparser.Error) as error:
            return Ini(path, broken=str(error).splitlines()[0])
        if options is not None:
            return Ini(path, options)
    return Ini()


def _toml(path: Path) -> dict[str, str] | None:
    tool: Any = tomllib.loads(path.read_text(encoding="utf-8")).get("tool", {})
    section = tool.get("pytest", {})
    options = section.get("ini_options", section) or None
    if options is None:
        return None
    return {key: " ".join(map(str, value)) if isinstance(value, list) else str(value) for key, value in options.items()}


def _cfg(path: Path, section: str) -> dict[str, str] | None:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(path.read_text(encoding="utf-8"))
    if parser.has_section(section):
        return dict(parser.items(section))
    return {} if path.name in ("pytest.ini", ".pytest.ini") else None
