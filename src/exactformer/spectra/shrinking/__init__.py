"""Smaller attention heads: new queries and keys, the best ones on given inputs.

layers        which heads can shrink, and their scores next to those of a copy
moments       second moments of queries and keys, from which the best smaller head follows
solution      that head: a truncated singular value decomposition, then conjugate gradients
calibration   layer after layer, the projections of a copy replaced
forms         rows of zeros taken out of the model; ``attention`` runs what is left
measurement   scores, attention and outputs of both models compared; ``accounting`` reports
storage       the smaller model in a folder
"""

from exactformer.spectra.shrinking.report import ShrinkReport
from exactformer.spectra.shrinking.shrink import Shrunk, shrink_heads
from exactformer.spectra.shrinking.storage import load_shrunk

__all__ = ["ShrinkReport", "Shrunk", "load_shrunk", "shrink_heads"]
