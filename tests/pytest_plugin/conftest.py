"""pytester forgets the modules that an inner run imports, and numpy and pandas do not survive a second import: they
come first, here."""

import pandas as pd  # noqa: F401
