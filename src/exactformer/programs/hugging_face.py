"""Programs among the automatic classes of transformers."""

from __future__ import annotations

from exactformer.errors import needs


def register_transformers() -> None:
    """Let ``AutoConfig``, ``AutoModel`` and ``AutoModelForTokenClassification`` read saved programs.

    They read folders that ``model.to_hugging_face().save_pretrained(folder)`` wrote. A second call
    changes nothing.
    """
    with needs("models", "register_transformers"):
        from transformers import AutoConfig, AutoModel, AutoModelForTokenClassification

        from exactformer.programs.stock_config import ProgramConfig
        from exactformer.programs.stock_model import ProgramForTokenClassification
    AutoConfig.register(ProgramConfig.model_type, ProgramConfig, exist_ok=True)
    for automatic in (AutoModel, AutoModelForTokenClassification):
        automatic.register(ProgramConfig, ProgramForTokenClassification, exist_ok=True)
