"""The doctor: is a gate run possible here, is anything switched off, and does the gate fail when it should?"""

from fairgate.doctor.examine import Wishes, examine
from fairgate.doctor.finding import Finding, Level, healthy

__all__ = ["Finding", "Level", "Wishes", "examine", "healthy"]
