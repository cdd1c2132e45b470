from .builds.recipes import Recipe as Recipe
from .builds.recipes import register as register_recipe  # noqa: F401 - given by this name
from .interfaces.api import Comparison as Comparison
from .interfaces.api import Run as Run
from .interfaces.api import check as check
from .interfaces.api import check_arrays as check_arrays
from .interfaces.api import compare as compare
from .interfaces.api import import_images as import_images
from .interfaces.api import load_suite as load_suite
from .interfaces.api import new_suite as new_suite
from .interfaces.api import open_dataset as open_dataset
from .metrics import Metric as Metric
from .metrics import register as register_metric  # noqa: F401 - given by this name
from .models import Model as Model
from .models import ModelFamily as ModelFamily
from .models import register as register_model  # noqa: F401 - given by this name
from .probes import Probe as Probe
from .probes import register as register_probe  # noqa: F401 - given by this name
from .records import RunRecord as RunRecord
from .version import __version__ as __version__
