"""Changes of the proofs for sequences and couplings that change no verdict, each with the reason."""

_INTEGERS = "sequences/proof/integers.py"
_CELLS = "sequences/proof/cells.py"
_NARROWING = "for the type checker: what is left out here has been refused before"
_NO_ZEROS = "a matrix holds no zeros"
_WORDS = "another message"
_AGAIN = "followed again, to the same end"
_SHAPES = "sequences/shapes.py"
_ALGEBRA = "sequences/proof/lookups.py"
_OUTSIDE = "sequences/proof/outside.py"
_LEAKAGE = "sequences/proof/leakage.py"
_SOFTNESS = "sequences/proof/softness.py"
_STATED = "couplings/proof/stated.py"
_SEARCH = "another search, for a number that is checked when it is found"
_HALVES = "ends of the band are no integers, and keys are"
_EQUAL = "floats that are computed are equal by chance"
_ROOM = "int64 holds up to 2^63; below that, Python's own integers give the same results"

_ERRORS = "sequences/proof/error.py"

EQUIVALENT: dict[tuple[str, str, str], str] = {
    (
        "sequences/floats.py",
        "_numbers",
        "isinstance(part, FeedForward) → True",
    ): "no quantiser with attention is certified",
    (_INTEGERS, "_SAFE", "1 → 0"): _ROOM,
    (_INTEGERS, "_SAFE", "62 → 61"): _ROOM,
    (_INTEGERS, "integer_type", "np.int64 if largest < _SAFE else object → object"): _ROOM,
    (_INTEGERS, "integer_type", "largest < _SAFE → largest <= _SAFE"): _ROOM,
    (_INTEGERS, "attended", "turn.any() → True"): "a case that no query is in adds 0",
    (_ERRORS, "modulus_at", "stated >= 0 → stated > 0"): "0 times h is 0, as it was stated",
    (_CELLS, "quantised.follow", "cell is not None → True"): _NARROWING,
    (_CELLS, "quantised.follow", "s is not None → True"): _NARROWING,
    (_CELLS, "quantised", "side or () → side"): _NARROWING,
    (_CELLS, "quantised.follow", "name not in known → True"): _AGAIN,
    (_CELLS, "visits", "name not in known → True"): _AGAIN,
    (_CELLS, "_homes", "v > 0 → v >= 0"): _NO_ZEROS,
    (_CELLS, "_layers", "reads[0][1] <= 0 → reads[0][1] < 0"): _NO_ZEROS,
    (_CELLS, "_layers", "mine → True"): "a layer without units changes nothing",
    (_SHAPES, "_check_stages", "1 → 0"): _WORDS,
    (_SHAPES, "_heads", "1 → 0"): _WORDS,
    (_ALGEBRA, "quantised_streams", "1 → 0"): _ROOM,
    (_ALGEBRA, "quantised_streams", "1 + grid.dim → grid.dim"): _ROOM,
    (_ALGEBRA, "_compare", "reject → True"): "without layers the code is read again as it was",
    (
        _OUTSIDE,
        "outside_goes_to_zero",
        "G * K * depth <= largest_key → G * K * depth < largest_key",
    ): "the column's own id, which is positive, is added: the code is larger than the largest key",
    (_OUTSIDE, "sums_are_negative", "weight <= 0 → weight < 0"): _NO_ZEROS,
    (_OUTSIDE, "largest_outside", "after.outside or () → after.outside"): _NARROWING,
    (_OUTSIDE, "rejects", "after.outside or () → after.outside"): _NARROWING,
    (
        _SOFTNESS,
        "reject_margin",
        "0 < low < min(keys) → 0 <= low < min(keys)",
    ): _HALVES,
    (
        _SOFTNESS,
        "reject_margin",
        "0 < low < min(keys) → 0 < low <= min(keys)",
    ): _HALVES,
    (
        _SOFTNESS,
        "reject_margin",
        "min((v for _, _, v in limit.code)) < 0 → min((v for _, _, v in limit.code)) <= 0",
    ): _NO_ZEROS,
    (_SOFTNESS, "reject_margin", "max(keys) > high → max(keys) >= high"): _HALVES,
    (_LEAKAGE, "Leakage.code_error", "60 → 59"): _SEARCH,
    (_LEAKAGE, "Leakage.code_error", "last <= allowed → last < allowed"): _SEARCH,
    (_LEAKAGE, "Leakage.code_error", "2 * last → last"): _SEARCH,
    (_LEAKAGE, "Leakage.code_error", "2 → 1"): _SEARCH,
    (_LEAKAGE, "Leakage.code_error", "allowed >= 1 / 8 → allowed > 1 / 8"): _SEARCH,
    (_LEAKAGE, "Leakage.code_error", "1 / 8 → 1"): _SEARCH,
    (_LEAKAGE, "Leakage.code_error", "8 → 7"): _SEARCH,
    (_LEAKAGE, "Leakage.sharpness_for", "2.0 → 1.0"): _SEARCH,
    (_LEAKAGE, "Leakage.sharpness_for", "4.0 → 2.0"): _SEARCH,
    (_LEAKAGE, "Leakage.sharpness_for", "high > 1000000.0 → high >= 1000000.0"): _SEARCH,
    (_LEAKAGE, "Leakage.sharpness_for", "1000000.0 → 500000.0"): _SEARCH,
    (
        _LEAKAGE,
        "Leakage.sharpness_for",
        "high - low > 1e-06 * high → high - low >= 1e-06 * high",
    ): _SEARCH,
    (_LEAKAGE, "Leakage.sharpness_for", "1e-06 * high → 1e-06"): _SEARCH,
    (_LEAKAGE, "Leakage.sharpness_for", "1e-06 → 5e-07"): _SEARCH,
    (
        _LEAKAGE,
        "Leakage.sharpness_for",
        "self.code_error(high) > code_error → self.code_error(high) >= code_error",
    ): _SEARCH,
    (
        _LEAKAGE,
        "Leakage.sharpness_for",
        "self.code_error(middle) <= code_error → self.code_error(middle) < code_error",
    ): _SEARCH,
    (
        _LEAKAGE,
        "Leakage._columns",
        "sharpness < self.float_exact() → sharpness <= self.float_exact()",
    ): _EQUAL,
    (
        _STATED,
        "check_stated",
        "1 / tau <= bound.concentration * (1 + ROOM) <= 1 + 2 * ROOM → "
        "1 / tau < bound.concentration * (1 + ROOM) <= 1 + 2 * ROOM",
    ): _EQUAL,
    (
        _STATED,
        "check_stated",
        "1 / tau <= bound.concentration * (1 + ROOM) <= 1 + 2 * ROOM → "
        "1 / tau <= bound.concentration * (1 + ROOM) < 1 + 2 * ROOM",
    ): _EQUAL,
    (_STATED, "_check_sums", "min(bound.root_sums) → max(bound.root_sums)"): _WORDS,
}
"""Reasons by file, function and change, as ``python -m tests.adversary.mutation`` prints them."""
