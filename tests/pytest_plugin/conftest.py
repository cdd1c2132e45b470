"""pytester forgets the modules that an inner run imports, and numpy cannot be imported twice: they come first, here."""

import fairgate.pytest_plugin.fixture
import fairgate.pytest_plugin.items
import fairgate.pytest_plugin.terminal
import fairgate.suites.ranking  # noqa: F401
