"""Smaller attention heads: new queries, keys and values, the best ones on given inputs.

division      inputs to fit to, and inputs kept back to measure errors on
layers        which heads can shrink, and their scores next to those of a copy
moments       second moments of queries and keys, from which the best smaller head follows
solution      that head: a truncated singular value decomposition, then conjugate gradients
values        smaller values, and the output projection that takes them
calibration   layer after layer, the projections of a copy replaced
forms         rows of zeros taken out of the model; ``attention`` runs what is left
measurement   scores, attention and outputs of both models compared; ``accounting`` reports
stock         configurations of transformers that express the smaller model
storage       the smaller model in a folder
"""

from exactformer.spectra.shrinking.report import Errors, ShrinkReport
from exactformer.spectra.shrinking.shrink import Shrunk, shrink_heads
from exactformer.spectra.shrinking.storage import load_shrunk

__all__ = ["Errors", "ShrinkReport", "Shrunk", "load_shrunk", "shrink_heads"]
