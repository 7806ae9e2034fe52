"""Changes of the proofs for polynomials that change no verdict, each with the reason."""

_BOUNDS = "execution/bounds.py"
_SYMBOLIC = "execution/symbolic.py"
_ONE = "Multiplies by one, or adds zero, where the polynomial was kept as it is."
_SAME_TWICE = "Found again instead of being looked up: the same numbers."
_ZERO = "Adds a zero."
_OTHER_PATH = "Rows of one entry take the path of longer rows, which gives the same bound."
_POSITIVE = "A unit is at least 1 and a safe constant at least tiny, so neither is 0."

EQUIVALENT: dict[tuple[str, str, str], str] = {
    (
        "certificates/selection.py",
        "_CHUNK",
        "512 → 511",
    ): "Rows are taken so many at a time, not otherwise.",
    ("certificates/identity.py", "_output", "coefficient != 0 → True"): _ZERO,
    (
        _SYMBOLIC,
        "run_symbolic",
        "feature + to_fmpq(at_centre) if at_centre else feature → feature + to_fmpq(at_centre)",
    ): _ONE,
    (
        _SYMBOLIC,
        "_apply",
        "entry if weight == 1 else entry * to_fmpq(weight) → entry * to_fmpq(weight)",
    ): _ONE,
    (_SYMBOLIC, "_apply", "1 → 0"): _ONE + " No matrix holds a zero.",
    (_BOUNDS, "Analysis.gamma", "0.5 → 0.25 (2)"): "Where ku < ½, 1 − ku is above ½ in any case.",
    (_BOUNDS, "Analysis.weight", "value not in self.rounded → True"): _SAME_TWICE,
    (_BOUNDS, "Analysis.entries", "(error == 0) & (constant > 0) → error == 0"): _POSITIVE,
    (_BOUNDS, "Analysis.entries", "constant > 0 → constant >= 0"): _POSITIVE,
    (_BOUNDS, "Analysis.embedding", "not row → False"): "A row without entries adds zeros.",
    (_BOUNDS, "Analysis.linear", "1 → 0"): _OTHER_PATH,
    (_BOUNDS, "Analysis.linear", "r not in single → True"): _OTHER_PATH,
}
"""Reasons by file, function and change, as ``python -m tests.adversary.mutation`` prints them."""
