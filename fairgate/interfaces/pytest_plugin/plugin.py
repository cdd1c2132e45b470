"""pytest's hooks. pytest imports this at every start-up: heavy imports are inside functions, here and below."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from fairgate.ground.errors import FairgateError, NoVerdict
from fairgate.suites import OPTIONS

if TYPE_CHECKING:
    from fairgate.interfaces.pytest_plugin.fixture import Fairness
    from fairgate.interfaces.pytest_plugin.session import GateSession


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Every option, with its ini twin; and the package's modules are imported as they are from here on.

    pytest would rewrite the asserts of a plugin's whole package: seconds on a new machine, 0.15 s on every other.
    """
    with contextlib.suppress(AttributeError):  # a pytest without these names may rewrite, which is only slower
        hook: Any = pluginmanager.rewrite_hook
        hook._must_rewrite.discard("fairgate")
        hook._marked_for_rewrite_cache.clear()
    group = parser.getgroup("fairness", "fairness gate")
    group.addoption(
        "--fairness-suite",
        action="append",
        default=[],
        metavar="NAME",
        help="run this fairness suite (repeatable); `all` for every suite in fairness_suites/",
    )
    for option in OPTIONS.values():
        spoken = f"{option.help} [{option.environment}]"
        group.addoption(option.flag, default=None, metavar=option.metavar, help=spoken)
        if option.in_ini:
            parser.addini(option.ini, option.help, default="")
    group.addoption(
        "--fairness-update-baseline",
        action="store_true",
        help="keep a run that passes as fairness_suites/baselines/SUITE/; needs a reason, refused in CI",
    )
    group.addoption("--fairness-reason", metavar="TEXT", help="why the baseline is updated; kept in its record")
    group.addoption("--fairness-force", action="store_true", help="keep a run as baseline that did not pass, too")


def pytest_configure(config: pytest.Config) -> None:
    """Load the suites that `--fairness-suite` names; an error in one ends the run with exit code 4."""
    config.addinivalue_line("markers", "fairness(suite): the suite that the `fairness` fixture of this test reads")
    names: list[str] = config.getoption("fairness_suite")
    if not names:
        return
    try:
        if config.getoption("fairness_update_baseline"):
            session_of(config).require_updatable()
        session_of(config).clear_reports(names)
        paths = [str(path) for path in session_of(config).prepare(names) if path.is_file()]
    except NoVerdict as error:
        pytest.exit(str(error), returncode=error.exit_code)
    except FairgateError as error:
        raise pytest.UsageError(str(error)) from error
    if config.args_source is not pytest.Config.ArgsSource.ARGS:
        config.args[:] = []
    config.args += [path for path in paths if path not in config.args]


def session_of(config: pytest.Config) -> GateSession:
    """The one gate session of this pytest process, registered as a plugin: hooks are its methods, and in `items`."""
    from fairgate.interfaces.pytest_plugin import items
    from fairgate.interfaces.pytest_plugin.session import SESSION, GateSession

    if SESSION not in config.stash:
        config.stash[SESSION] = GateSession(config)
        config.pluginmanager.register(config.stash[SESSION])
        config.pluginmanager.register(items)
    return config.stash[SESSION]


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """xdist: tell each worker what the one evaluation found."""
    if node.config.getoption("fairness_suite"):
        node.workerinput["fairgate_evaluations"] = session_of(node.config).told()


@pytest.fixture
def fairness(request: pytest.FixtureRequest) -> Fairness:
    """The suite named by `@pytest.mark.fairness(suite=...)`, scored: assert on its probes."""
    from fairgate.interfaces.pytest_plugin.fixture import Fairness

    marker = request.node.get_closest_marker("fairness")
    name = (marker.kwargs.get("suite") or (marker.args or [None])[0]) if marker else None
    if name is None:
        pytest.fail(
            f"{request.node.nodeid} uses the `fairness` fixture without a suite; "
            'mark it with @pytest.mark.fairness(suite="NAME")',
            pytrace=False,
        )
    session = session_of(request.config)
    try:
        session.prepare([name])
    except FairgateError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None
    return Fairness(session.prepared[name], session.settings[name])
