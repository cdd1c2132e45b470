"""Engines: they run a build's tasks, in this process or on Ray, and hand every result back."""

from fairgate.engines.contract import Bench, Engine, Task, Work

__all__ = ["Bench", "Engine", "Task", "Work"]
