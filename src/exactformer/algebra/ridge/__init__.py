"""Ridge forms and the families of directions that give them."""

from exactformer.algebra.ridge.families import FAMILIES, ridge_form, ridge_forms
from exactformer.algebra.ridge.form import RidgeForm

__all__ = ["FAMILIES", "RidgeForm", "ridge_form", "ridge_forms"]
