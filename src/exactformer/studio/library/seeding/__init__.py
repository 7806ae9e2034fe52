"""What a library begins with: the works this project stands on, and what they cite.

``works/NAME.json`` is a record with its claims, ``works/NAME.references.json`` its reference list
in CSL-JSON, as the work prints it. Fang, Yun, Jiang and Li are three of the four bodies of work; the
fourth, a page about Fang on a scholarly site, is no work to cite: it is what these pages are made
after. In its place stands the talk through which this project reads Yun.
"""

from exactformer.studio.library.seeding.seeding import KIND, NAMES, featured, seed, seeded

__all__ = ["KIND", "NAMES", "featured", "seed", "seeded"]
