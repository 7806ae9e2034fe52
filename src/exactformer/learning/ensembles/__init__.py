"""Many small models trained as one: every weight has a leading axis for the model."""

from exactformer.learning.ensembles.data import evaluate
from exactformer.learning.ensembles.models.attention import (
    AttentionConfiguration,
    AttentionEnsemble,
)
from exactformer.learning.ensembles.models.base import Ensemble
from exactformer.learning.ensembles.models.dense import DenseEnsemble
from exactformer.learning.ensembles.models.recurrent import (
    LinearRNNConfiguration,
    LinearRNNEnsemble,
)
from exactformer.learning.ensembles.training.protocol import EnsembleProtocol
from exactformer.learning.ensembles.training.train import EnsembleHistory, EnsembleProgress, train

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
