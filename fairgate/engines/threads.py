"""One thread inside every operation: sums then have one order, however many workers there are."""

from __future__ import annotations

import os
import sys

_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def one_thread_each() -> None:
    """Let BLAS, OpenMP and torch compute on the calling thread alone, from here on, in this process.

    Libraries that are loaded later read it from the environment; those that are here are told. A worker calls it before
    it opens models and after: a model may have brought torch along.
    """
    from threadpoolctl import threadpool_limits

    for variable in _VARIABLES:
        os.environ[variable] = "1"
    threadpool_limits(limits=1)
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(1)
