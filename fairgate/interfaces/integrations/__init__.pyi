from .lightning import LightningFairness as LightningFairness
from .transformers import TrainerFairness as TrainerFairness
from .while_training import FairnessError as FairnessError
from .while_training import Judged as Judged
from .while_training import OpenClipFairness as OpenClipFairness
from .while_training import TrainingJudge as TrainingJudge
