"""Changes of the proofs for sequences and couplings that change no verdict, each with the reason."""

_INTEGERS = "certificates/sequence_integers.py"
_ROOM = "int64 holds up to 2^63; below that, Python's own integers give the same results"

EQUIVALENT: dict[tuple[str, str, str], str] = {
    (_INTEGERS, "", "2 ** 62 → 0.0"): _ROOM,
    (_INTEGERS, "", "2 → 1"): _ROOM,
    (_INTEGERS, "", "62 → 61"): _ROOM,
    (_INTEGERS, "integer_type", "np.int64 if largest < _SAFE else object → object"): _ROOM,
    (_INTEGERS, "integer_type", "largest < _SAFE → largest <= _SAFE"): _ROOM,
    (_INTEGERS, "attended", "turn.any() → True"): "a case that no query is in adds 0",
}
"""Reasons by file, function and change, as ``python -m tests.adversary.mutation`` prints them."""
