"""Whether pytest collects every check of the suites, and the options and variables that prevent it."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from fairgate.gate.selftest.finding import TOOK_TOO_LONG, Finding, ok, run, trouble, warning
from fairgate.ground.errors import suggestion
from fairgate.ground.plugins import entry_points
from fairgate.suites import OPTIONS

AREA: Final = "pytest"
_COLLECT_SECONDS: Final = 300
_DROPPING: Final = re.compile(
    r"""(?<!\S)(?:-p\s*no:fairgate|--(?:lf|last-failed|sw)(?!\S)|"""
    r"""(?:-[km]|--deselect|--ignore|--ignore-glob)[\s=]*(?:'[^']*'|"[^"]*"|\S+))"""
)
"""Options of pytest that leave out items, or the plugin, with their values."""


def look_at_pytest(root: Path, items: Mapping[str, int], ini: Ini) -> list[Finding]:
    """Whether pytest collects every item of the suites (`items`: how many each should have), and what is in the way."""
    findings: list[Finding] = []
    if ini.broken is not None:
        remedy = "fix the file; pytest cannot start with it"
        findings.append(trouble(AREA, f"pytest's configuration cannot be read: {ini.broken}.", str(ini.path), remedy))
    if not any(entry_point.name == "fairgate" for entry_point in entry_points("pytest11")):
        what = "fairgate is not registered with pytest: the options --fairness-* do not exist."
        findings.append(trouble(AREA, what, sys.executable, "install it, do not only put it on the path: pip install"))
    if items:
        findings.append(_collected(root, items, ini))
    xdist = importlib.util.find_spec("xdist") is not None
    on = "is installed" if has_xdist(ini) else "is installed, and switched off"
    findings.append(ok(AREA, f"pytest-xdist {on if xdist else 'is not installed: items run one after another'}"))
    return [*findings, *_environment()]


def _collected(root: Path, items: Mapping[str, int], ini: Ini) -> Finding:
    """What pytest would run, by suite."""
    wanted = [word for name in items for word in ("--fairness-suite", name)]
    with tempfile.TemporaryDirectory(prefix="fairgate-doctor-") as scratch:  # what addopts let pytest write goes there
        aside = ["-p", "no:cacheprovider", "--fairness-mlflow", "off", "--fairness-wandb", "off"]
        aside.append(f"--junitxml={scratch}/junit.xml")
        quiet = {"PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "200", "COVERAGE_FILE": f"{scratch}/coverage"}
        words = [sys.executable, "-m", "pytest", "--collect-only", "-q", *wanted, *aside]
        done = run(words, root, _COLLECT_SECONDS, quiet)
    shown = shlex.join(["pytest", "--collect-only", *wanted])
    if done.code == TOOK_TOO_LONG:
        return trouble(AREA, f"pytest did not finish collecting within {_COLLECT_SECONDS} s.", where=shown)
    suspects = []  # options and variables by which pytest drops items or plugins, each with its place
    places = {f"addopts in {ini.path.name}" if ini.path else "addopts": ini.get("addopts")}
    places["PYTEST_ADDOPTS"] = os.environ.get("PYTEST_ADDOPTS")
    for place, text in places.items():
        suspects += [f"`{option}` ({place})" for option in _dropping(text or "")]
    if os.environ.get("PYTEST_DISABLE_PLUGIN_AUTOLOAD"):
        suspects.append("PYTEST_DISABLE_PLUGIN_AUTOLOAD is set: add `-p fairgate.interfaces.pytest_plugin.plugin`")
    remedy = f"look at {'; '.join(suspects)}" if suspects else "run that command and read what it says"
    if "unrecognized arguments" in done.err and "--fairness-suite" in done.err:
        what = "pytest does not load fairgate's plugin here: the gate is off."
        return trouble(AREA, what, where=shown, remedy=remedy)
    item = r"^\s*(?:\S*/)?{}\.yaml::"
    seen = {name: len(re.findall(item.format(re.escape(name)), done.out, re.MULTILINE)) for name in items}
    missing = [f"{seen[name]} of {count} items of '{name}'" for name, count in items.items() if seen[name] < count]
    if missing:
        why = "" if done.code in (0, 5) else f" ({done.error_message})"
        return trouble(AREA, f"pytest would run only {', '.join(missing)}{why}.", where=shown, remedy=remedy)
    what = f"the plugin is on, and pytest collects all {sum(items.values())} items of {', '.join(items)}"
    if done.code != 0:
        return warning(AREA, f"{what}; it ended with exit code {done.code} all the same.", remedy=done.error_message)
    if suspects:
        remedy = f"remove what may deselect items one day: {'; '.join(suspects)}"
        return warning(AREA, f"{what}, for now.", remedy=remedy)
    return ok(AREA, what)


def _dropping(text: str) -> list[str]:
    """The options in a line of `addopts` that deselect items or block the plugin.

    >>> _dropping("-q -k 'not slow' -p no:fairgate --ignore=docs --maxfail=1")
    ["-k 'not slow'", '-p no:fairgate', '--ignore=docs']
    """
    return [option[0] for option in _DROPPING.finditer(text)]


def has_xdist(ini: Ini) -> bool:
    """Whether items can be spread over workers here."""
    options = f"{ini.get('addopts') or ''} {os.environ.get('PYTEST_ADDOPTS', '')}"
    return importlib.util.find_spec("xdist") is not None and "no:xdist" not in options


_NO_OPTIONS = ("FAIRGATE_CACHE_KEY", *(f"FAIRGATE_{slow}_TIMEOUT" for slow in ("MLFLOW", "MODEL", "WANDB")))
"""Variables that fairgate reads, and that take the place of nothing in a suite."""


def _environment() -> list[Finding]:
    """FAIRGATE_* variables that override a suite, and those that fairgate does not know."""
    from fairgate.tracking import redact

    known = {option.environment: option for option in OPTIONS.values()}
    findings = []
    for name in sorted(name for name in os.environ if name.startswith("FAIRGATE_")):
        if name in _NO_OPTIONS or name.startswith(("FAIRGATE_ROOT_", "FAIRGATE_SERVER_")):
            continue
        if name not in known:
            what = f"the variable {name} is set, and fairgate does not know it."
            remedy = suggestion(name, known, f"known: {', '.join(known)}")
            findings.append(warning("environment", what, remedy=remedy))
        elif os.environ[name]:
            what = f"{name}={redact(os.environ[name])} is set: it takes the place of what suites and ini files say."
            remedy = "unset it if that is not meant; `--fairness-*` on the command line is stronger"
            findings.append(warning("environment", what, remedy=remedy))
    return findings or [ok("environment", "no FAIRGATE_* variable changes what suites say")]


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
    """What pytest takes as its configuration in a repository, by its own reader."""
    from _pytest.config import UsageError
    from _pytest.config.findpaths import locate_config
    from _pytest.outcomes import Failed

    try:
        _, path, options, *_ = locate_config(root, [root])
    except (UsageError, Failed, OSError, ValueError) as error:
        text = str(error).splitlines()[0]
        named = Path(text.partition(":")[0])  # most of pytest's errors start with the file
        return Ini(named if named.is_file() else root, broken=text)
    values = {name: getattr(option, "value", option) for name, option in options.items()}  # before pytest 9, plain ones
    return Ini(path, {k: " ".join(map(str, v)) if isinstance(v, list) else str(v) for k, v in values.items()})
