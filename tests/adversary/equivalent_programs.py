"""Changes of the proofs for programs that change no verdict, each with the reason."""

_ARITHMETIC = "programs/proof/arithmetic.py"
_ATTENTION = "programs/proof/attention.py"
_RELUS = "programs/proof/feed_forward.py"
_SCORES = "programs/proof/scores.py"
_STATE = "programs/proof/state.py"
_RATIONALS = "Codes are added up as rationals: the same numbers."
_BOTH = "Both read a beginning token, or there is none."
_TYPE = "Says what type something has, and no more."
_SAME_TWICE = "Found again instead of being looked up: the same numbers."
_BEYOND = "Any number beyond all exponents of float64 will do."
_TOGETHER = "Directions are taken so many at a time, not otherwise."
_LONG_WAY = "A direction of two units is proven the long way: the same bound."
_LIMIT = "A limit of what is taken on."
_ZEROS = "Exact arithmetic loses nothing: adds zeros."
_NOBODY = "No register has the number None."

EQUIVALENT: dict[tuple[str, str, str], str] = {
    (_ARITHMETIC, "NEVER", "20 → 19"): _BEYOND,
    (_ARITHMETIC, "UNKNOWN", "20 → 19"): _BEYOND,
    (_ARITHMETIC, "LARGEST", "500 → 499"): _LIMIT,
    (_ARITHMETIC, "Arithmetic.weights", "value not in known → True"): _SAME_TWICE,
    (
        _ARITHMETIC,
        "times",
        "1e-300 → 5e-301",
    ): "Underflows of fewer than 2^30 products cost less than 2^30·2^−1074.",
    (_ATTENTION, "_Written._leak", "20 → 19"): "A bound is raised further.",
    ("programs/proof/cases.py", "MOST_CASES", "4000000 → 3999999"): _LIMIT,
    (_SCORES, "MOST_SCORES", "40000000 → 39999999"): _LIMIT,
    (
        _SCORES,
        "HeadScores.scores",
        "keys.beginning is not None and queries.beginning is not None → queries.beginning is not None",
    ): _BOTH,
    (
        _SCORES,
        "HeadScores.scores",
        "keys.beginning is not None and queries.beginning is not None → keys.beginning is not None",
    ): _BOTH,
    ("programs/proof/certificate.py", "_SHOWN", "12 → 11"): "How many tokens are listed in words.",
    (
        "programs/proof/induction.py",
        "_prove_output",
        "1e-300 → 5e-301",
    ): "Where floats are subnormal, a number is nearer to its float than that.",
    (_STATE, "Root", "tuple[int, int | None] | None → tuple[int, int | None]"): _TYPE,
    (_STATE, "Root", "tuple[int, int | None] | None → None"): _TYPE,
    (_STATE, "State.values", "isinstance(node, WidthNode) → True"): _TYPE,
    (
        _STATE,
        "State.read_weights",
        "number is None or number not in self.held → number not in self.held",
    ): _NOBODY,
    (
        _STATE,
        "_added_up",
        "all((v.denominator == 1 and abs(v.numerator) < 2 ** 20 for v in steps.entries.values())) → "
        "False",
    ): _RATIONALS,
    (_STATE, "_added_up", "1 → 0"): _RATIONALS,
    (_STATE, "_added_up", "2 ** 20 → 0.0"): _RATIONALS,
    (_STATE, "_added_up", "2 → 1"): _RATIONALS,
    (_STATE, "_added_up", "20 → 19"): _RATIONALS,
    (
        _STATE,
        "_added_up",
        "abs(v.numerator) < 2 ** 20 → abs(v.numerator) <= 2 ** 20",
    ): "Sums of whole numbers up to 2^20 are exact in float64.",
    (_RELUS, "MOST_TOGETHER", "4000000 → 3999999"): _TOGETHER,
    (
        _RELUS,
        "_Register.prove",
        "MOST_TOGETHER // max(1, x.size) → MOST_TOGETHER",
    ): _TOGETHER,
    (
        _RELUS,
        "_Register.prove",
        "(self.w2 != 0).sum(1) <= 2 → (self.w2 != 0).sum(1) < 2",
    ): _LONG_WAY,
    (_RELUS, "_Register.prove", "2 → 1"): _LONG_WAY,
    (
        _RELUS,
        "_Register._pairs",
        "not here.any() → False",
    ): "What is found where it holds nowhere is not used.",
    (_RELUS, "_Register._pairs", "arithmetic.format is not None → True"): _ZEROS,
    (_RELUS, "_Register._direction", "arithmetic.format is not None → True"): _ZEROS,
    (
        _RELUS,
        "_Register._held",
        "number is None or number not in self.state.held → number not in self.state.held",
    ): _NOBODY,
}
"""Reasons by file, function and change, as ``python -m tests.adversary.mutation`` prints them."""
