"""Engines: they run a build's tasks, in this process or on Ray, and hand every result back."""

from fairgate.engines.local import Bench, Engine, Task, Work, one_thread_each
from fairgate.engines.open import ENGINES, open_engine

__all__ = ["ENGINES", "Bench", "Engine", "Task", "Work", "one_thread_each", "open_engine"]
