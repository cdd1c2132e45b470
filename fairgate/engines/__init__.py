"""Engines: they run a build's tasks, in this process or on Ray, and hand every result back."""

from fairgate.engines.contract import ENGINES, Bench, Engine, Task, Work, open_engine
from fairgate.engines.local import one_thread_each

__all__ = ["ENGINES", "Bench", "Engine", "Task", "Work", "one_thread_each", "open_engine"]
