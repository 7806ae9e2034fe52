"""Changes of the proofs for sequences and couplings that change no verdict, each with the reason."""

_INTEGERS = "certificates/sequence_integers.py"
_CELLS = "certificates/sequence_cells.py"
_NARROWING = "for the type checker: what is left out here has been refused before"
_NO_ZEROS = "a matrix holds no zeros"
_WORDS = "another message"
_ROOM = "int64 holds up to 2^63; below that, Python's own integers give the same results"

EQUIVALENT: dict[tuple[str, str, str], str] = {
    (_INTEGERS, "", "2 ** 62 → 0.0"): _ROOM,
    (_INTEGERS, "", "2 → 1"): _ROOM,
    (_INTEGERS, "", "62 → 61"): _ROOM,
    (_INTEGERS, "integer_type", "np.int64 if largest < _SAFE else object → object"): _ROOM,
    (_INTEGERS, "integer_type", "largest < _SAFE → largest <= _SAFE"): _ROOM,
    (_INTEGERS, "attended", "turn.any() → True"): "a case that no query is in adds 0",
    (_CELLS, "quantised.follow", "cell is not None → True"): _NARROWING,
    (_CELLS, "quantised.follow", "s is not None → True"): _NARROWING,
    (_CELLS, "quantised", "side or () → side"): _NARROWING,
    (_CELLS, "quantised.follow", "name not in known → True"): "followed again, to the same end",
    (_CELLS, "_homes", "v > 0 → v >= 0"): _NO_ZEROS,
    (_CELLS, "_layers", "reads[0][1] <= 0 → reads[0][1] < 0"): _NO_ZEROS,
    (_CELLS, "_layers", "mine → True"): "a layer without units changes nothing",
    (
        _CELLS,
        "_split",
        "'ReLU' if isinstance(layer, FeedForward) else 'attention' → 'ReLU'",
    ): _WORDS,
    (
        _CELLS,
        "_split",
        "'ReLU' if isinstance(layer, FeedForward) else 'attention' → 'attention'",
    ): _WORDS,
    (_CELLS, "_split", "isinstance(layer, FeedForward) → True"): _WORDS,
}
"""Reasons by file, function and change, as ``python -m tests.adversary.mutation`` prints them."""
