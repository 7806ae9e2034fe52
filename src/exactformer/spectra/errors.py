"""What analysing a model can meet beyond wrong input."""

from exactformer.errors import ExactformerError


class ExtractionError(ExactformerError):
    """Some attention of a model is not understood, or not reproduced; the message names the module."""
