"""Steps of a dataset pipeline: each fills columns of counterfactual sets, or judges a set and explains every drop."""

from fairgate.steps.contract import Drop, Judge, Maker, Meter, Row, SetRows, Step, Trace, run_steps

__all__ = ["Drop", "Judge", "Maker", "Meter", "Row", "SetRows", "Step", "Trace", "run_steps"]
