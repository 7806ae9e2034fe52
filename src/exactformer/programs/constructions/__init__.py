"""Programs into blueprints."""

from exactformer.programs.constructions.plan import construct

__all__ = ["construct"]
