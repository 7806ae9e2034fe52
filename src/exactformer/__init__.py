"""exactformer: functions into transformers, with proof of how far off they are."""

__version__ = "0.1.0"
