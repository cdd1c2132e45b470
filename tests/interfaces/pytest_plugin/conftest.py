"""pytester forgets the modules that an inner run imports, and numpy and pandas do not survive a second import: they
come first, here."""

import pandas as pd  # noqa: F401

import fairgate.interfaces.pytest_plugin.fixture
import fairgate.interfaces.pytest_plugin.items
import fairgate.suites.deciding  # noqa: F401
from fairgate.metrics import METRICS

for metric in METRICS:
    METRICS[metric]
