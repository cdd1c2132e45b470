"""The doctor: is a gate run possible here, is anything switched off, and does the gate fail when it should?"""

from fairgate.selftest.finding import Finding, Level, healthy
from fairgate.selftest.run import SelfTestOptions, examine

__all__ = ["Finding", "Level", "SelfTestOptions", "examine", "healthy"]
