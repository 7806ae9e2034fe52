"""Papers as files: JSON that loses nothing, BibTeX for writing, CSV for tables.

``export`` makes one text of some papers, ``stream`` goes through the whole library piece by piece.
"""

from exactformer.studio.library.exporting.formats import FORMATS, Format, export, stream

__all__ = ["FORMATS", "Format", "export", "stream"]
