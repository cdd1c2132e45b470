"""The script by which `make` installs: uv takes packages from where pip is set up to take them."""

from __future__ import annotations

import os
import runpy
from pathlib import Path

import pytest
from github_files import ROOT

SCRIPT = ROOT / ".github" / "scripts" / "install.py"


def _sources(monkeypatch: pytest.MonkeyPatch, configuration: Path, **settings: str) -> dict[str, str]:
    for name in ("INDEX_URL", "EXTRA_INDEX_URL", "FIND_LINKS", "TRUSTED_HOST", "CERT"):
        monkeypatch.delenv(f"PIP_{name}", raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(configuration))
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    found: dict[str, str] = runpy.run_path(str(SCRIPT))["sources"]()
    return found


def test_uv_is_told_the_indexes_of_pips_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    configuration = tmp_path / "pip.conf"
    configuration.write_text(
        "[global]\nindex-url = https://one.example/simple\nextra-index-url =\n  https://two.example/simple\n"
        "  https://three.example/simple\nfind-links = /wheels /more\n[install]\ncert = /ca.pem\n",
        encoding="utf-8",
    )
    assert (
        _sources(monkeypatch, configuration).items()
        >= {
            "UV_DEFAULT_INDEX": "https://one.example/simple",
            "UV_INDEX": "https://two.example/simple https://three.example/simple",
            "UV_FIND_LINKS": "/wheels,/more",
            "SSL_CERT_FILE": "/ca.pem",
        }.items()
    )


def test_the_environment_goes_before_pips_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    configuration = tmp_path / "pip.conf"
    configuration.write_text("[global]\nindex-url = https://one.example/simple\n", encoding="utf-8")
    found = _sources(monkeypatch, configuration, PIP_INDEX_URL="https://mine.example/simple")
    assert found["UV_DEFAULT_INDEX"] == "https://mine.example/simple"


def test_uv_has_its_own_defaults_where_pip_has(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _sources(monkeypatch, Path(os.devnull)) == {}  # pip then reads no file at all
