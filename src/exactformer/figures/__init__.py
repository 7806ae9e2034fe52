"""Figures, in one look. Nothing here touches pyplot or leaves a setting behind."""

from exactformer.figures.accuracy import accuracy_figure
from exactformer.figures.circuit import circuit_figure
from exactformer.figures.margins import margins_figure
from exactformer.figures.style import exactformer_style, save_figure

__all__ = [
    "accuracy_figure",
    "circuit_figure",
    "exactformer_style",
    "margins_figure",
    "save_figure",
]
