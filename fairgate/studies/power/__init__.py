"""How small a regression a suite can see at its present size, and how many sets a smaller one would take."""

from fairgate.studies.power.first_suite import MEASURED, FirstSuite, measured_suite
from fairgate.studies.power.run import suite_power

__all__ = ["MEASURED", "FirstSuite", "measured_suite", "suite_power"]
