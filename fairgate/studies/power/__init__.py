"""How small a regression a suite can see at its present size, and how many sets a smaller one would take."""

from fairgate.studies.power.run import suite_power

__all__ = ["suite_power"]
