from .first_suite import MEASURED as MEASURED
from .first_suite import FirstSuite as FirstSuite
from .first_suite import measured_suite as measured_suite
from .run import suite_power as suite_power
