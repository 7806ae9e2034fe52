"""A transformer is data before it is a program: exact weights, named dimensions. No torch."""

from exactformer.blueprint.blueprint import Blueprint, Counts
from exactformer.blueprint.domain import Ball, Box, Domain, as_domain
from exactformer.blueprint.layers import (
    Activation,
    Attention,
    Block,
    Embedding,
    FeedForward,
    Head,
    Readout,
    Rule,
    Selection,
)
from exactformer.blueprint.matrix import Matrix

__all__ = [
    "Activation",
    "Attention",
    "Ball",
    "Block",
    "Blueprint",
    "Box",
    "Counts",
    "Domain",
    "Embedding",
    "FeedForward",
    "Head",
    "Matrix",
    "Readout",
    "Rule",
    "Selection",
    "as_domain",
]
