"""Many small models trained as one: every weight has a leading axis for the model."""

from exactformer.learning.ensemble.attention import AttentionConfiguration, AttentionEnsemble
from exactformer.learning.ensemble.base import Ensemble
from exactformer.learning.ensemble.dense import DenseEnsemble
from exactformer.learning.ensemble.evaluating import evaluate
from exactformer.learning.ensemble.history import EnsembleHistory
from exactformer.learning.ensemble.protocol import EnsembleProtocol
from exactformer.learning.ensemble.recurrent import LinearRNNConfiguration, LinearRNNEnsemble
from exactformer.learning.ensemble.training import EnsembleProgress, train

__all__ = [
    "AttentionConfiguration",
    "AttentionEnsemble",
    "DenseEnsemble",
    "Ensemble",
    "EnsembleHistory",
    "EnsembleProgress",
    "EnsembleProtocol",
    "LinearRNNConfiguration",
    "LinearRNNEnsemble",
    "evaluate",
    "train",
]
