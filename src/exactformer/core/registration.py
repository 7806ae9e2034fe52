"""Our models in the tables of transformers, as soon as transformers has tables.

``import exactformer`` must stay quick and transformers is large, so nothing is imported here: a module
of ours, which enters its model as its last step, is imported when transformers imports the module of
the table, or at once where it has already. One that is itself being imported then enters when it ends.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType


class _WhenImported(MetaPathFinder):
    """Imports one module of ours right after one of theirs."""

    def __init__(self, theirs: str, ours: str) -> None:
        self.theirs, self.ours = theirs, ours

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find nothing; for their module, return its own spec with our import behind it."""
        if name != self.theirs:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        load = spec.loader.exec_module

        def load_and_register(module: ModuleType) -> None:
            load(module)
            try:
                import_module(self.ours)
            except ImportError as error:  # an older transformers, which cannot hold our models
                if not (error.name or "").startswith("transformers"):
                    raise

        spec.loader.exec_module = load_and_register  # type: ignore[method-assign]
        return spec


def register_when_imported(theirs: str, ours: str) -> None:
    """Import our module once theirs has been imported."""
    if theirs in sys.modules:
        import_module(ours)
    else:
        sys.meta_path.insert(0, _WhenImported(theirs, ours))
