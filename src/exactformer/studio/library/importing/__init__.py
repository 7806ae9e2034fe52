"""Files of others become records: nothing is written before somebody has seen what would be.

texts       bytes to text and data, within bounds
bibtex, csl, arxiv, openalex, own    one file per format
formats     which of them a file is
previews    preview, confirm or discard
"""

from exactformer.studio.library.importing.formats import FORMATS, read
from exactformer.studio.library.importing.previews import (
    Item,
    Outcome,
    confirm,
    discard,
    pending,
    preview,
    propose,
    store,
    waiting,
    write,
)

__all__ = [
    "FORMATS",
    "Item",
    "Outcome",
    "confirm",
    "discard",
    "pending",
    "preview",
    "propose",
    "read",
    "store",
    "waiting",
    "write",
]
