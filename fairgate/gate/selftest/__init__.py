"""`fairgate doctor`: whether a gate run is possible here, whether anything disables it, and whether bias fails it."""

from fairgate.gate.selftest.finding import Finding, Level, healthy
from fairgate.gate.selftest.run import SelfTestOptions, examine

__all__ = ["Finding", "Level", "SelfTestOptions", "examine", "healthy"]
