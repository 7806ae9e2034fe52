"""Changes of the proofs for polynomials that change no verdict, each with the reason."""

_BOUNDS = "polynomials/proof/literal_rounding.py"
_SOFTMAX = "polynomials/proof/softmax_symbolic.py"
_SAME_TWICE = "Found again instead of being looked up: the same numbers."
_ZERO = "Adds a zero."
_SELECTION = "polynomials/proof/selection.py"
_FOLDING = "polynomials/proof/folded_tables.py"
_SHARING = "polynomials/proof/shared_polynomials.py"
_MAGNITUDES = "polynomials/proof/magnitudes.py"
_POWERS = "entry[0] == 0 and sum((a != 0 for a in entry.coeffs())) <= 1"
_POWER = "The bound of a power is found the long way: the same rational, rounded once."
_SUM = "The rational sum and the nearest float of it, both pushed out, are bounds alike."
_PUSHED = "A sum of upper bounds is pushed out further than this."

EQUIVALENT: dict[tuple[str, str, str], str] = {
    (
        "core/upper.py",
        "_values",
        "number.values if isinstance(number, Upper) else np.asarray(number, dtype=np.float64) → "
        "np.asarray(number, dtype=np.float64)",
    ): "Entries are read one by one: the same numbers.",
    (
        _SELECTION,
        "_CHUNK",
        "512 → 511",
    ): "Rows are taken so many at a time, not otherwise.",
    (_SELECTION, "_margins", "cosines is None → True"): _SAME_TWICE,
    (_SELECTION, "_margins", "key not in nearest → True"): _SAME_TWICE,
    (_SELECTION, "_Rests.of", "id(entry) not in self._known → True"): _SAME_TWICE,
    (_FOLDING, "Columns.of", "token == ALL → token != ALL"): "A label of two kinds of columns.",
    (
        _FOLDING,
        "FoldedMatrix.plain",
        "1 → 0",
    ): "No weight of a plain matrix is one token's, so none is told how many there are.",
    (_MAGNITUDES, "_slope", f"{_POWERS} → False"): _POWER,
    (
        _MAGNITUDES,
        "_slope",
        "sum((a != 0 for a in entry.coeffs())) <= 1 → sum((a != 0 for a in entry.coeffs())) < 1",
    ): _POWER,
    (_MAGNITUDES, "_slope", "1 → 0"): _POWER,
    (_MAGNITUDES, "_sum_above", "polynomial.degree() < 1 or reach == 0 → True"): _SUM,
    (_MAGNITUDES, "_sum_above", "polynomial.degree() < 1 → polynomial.degree() <= 1"): _SUM,
    (_MAGNITUDES, "_sum_above", "1 → 0"): _SUM,
    (_MAGNITUDES, "_norm", "1.0 → 0.5"): "Zeros are divided by another number than one.",
    (_MAGNITUDES, "largest", "c != 0 → True"): _POWER,
    (_MAGNITUDES, "largest", "len(terms) == 1 → False"): _POWER,
    (_MAGNITUDES, "Sizes._find", "key not in self._known → True"): _SAME_TWICE,
    (_MAGNITUDES, "Sizes.tables", "key not in self._streams → True"): _SAME_TWICE,
    (_MAGNITUDES, "CoordinateSizes._sum", "above(size(j)) → abs(float(size(j)))"): _PUSHED,
    ("polynomials/proof/identity.py", "_output", "coefficient != 0 → True"): _ZERO,
    (_SOFTMAX, "_run_block.project", "key not in projections → True"): _SAME_TWICE,
    (_SOFTMAX, "Ranges.of", "id(entry) not in known → True"): _SAME_TWICE,
    (_SHARING, "Sharing.scaled", "weight == 1 → False"): "Multiplies by one.",
    (_SHARING, "Sharing._find", "key not in self._known → True"): _SAME_TWICE,
    (_BOUNDS, "Analysis.weight", "key not in self.rounded → True"): _SAME_TWICE,
    (
        _BOUNDS,
        "_carried",
        "above(value) → abs(float(value))",
    ): _PUSHED,
}
"""Reasons by file, function and change, as ``python -m tests.adversary.mutation`` prints them."""
