"""A transformer is data before it is a program: exact weights, named dimensions. No torch."""

from exactformer.blueprint.blueprint import Blueprint, Counts
from exactformer.blueprint.domain import Ball, Box, Domain, as_domain
from exactformer.blueprint.layers import (
    Activation,
    Attention,
    BiasedHead,
    Block,
    Embedding,
    FeedForward,
    Head,
    PiecewiseFeedForward,
    PiecewiseLinear,
    Readout,
    Rule,
    Selection,
)
from exactformer.blueprint.matrix import Matrix
from exactformer.blueprint.sequence import (
    SequenceBlueprint,
    SequenceCounts,
    SequenceEmbedding,
    Stage,
    Successive,
)
from exactformer.blueprint.sequence_table import Grid, GridTable

__all__ = [
    "Activation",
    "Attention",
    "Ball",
    "BiasedHead",
    "Block",
    "Blueprint",
    "Box",
    "Counts",
    "Domain",
    "Embedding",
    "FeedForward",
    "Grid",
    "GridTable",
    "Head",
    "Matrix",
    "PiecewiseFeedForward",
    "PiecewiseLinear",
    "Readout",
    "Rule",
    "Selection",
    "SequenceBlueprint",
    "SequenceCounts",
    "SequenceEmbedding",
    "Stage",
    "Successive",
    "as_domain",
]
