from .lightning import LightningFairness as LightningFairness
from .open_clip import OpenClipFairness as OpenClipFairness
from .transformers import TrainerFairness as TrainerFairness
from .while_training import FairnessError as FairnessError
from .while_training import Judged as Judged
from .while_training import TrainingJudge as TrainingJudge
