"""Claims and their evidence, as plain data."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal

Kind = Literal["definition", "theorem", "lemma", "remark", "table", "figure", "text"]
Weight = Literal["wrong", "slip", "remark"]


@dataclass(frozen=True)
class Value:
    """A number of the paper, held against the mean of a row of a stored run.

    ``published`` is the number as the paper prints it, so that its last digit is known. The exponent
    of a law names in ``interval`` the row with the half-width of our confidence interval.
    ``incomparable`` says why the two numbers are shown and not compared. ``note`` tells the reader why
    ours differs, and ``inferred`` that the cell of the table cannot be read and was assigned by
    inference.
    """

    result: str
    row: str
    published: str
    interval: str = ""
    incomparable: str = ""
    note: str = ""
    inferred: bool = False

    @property
    def number(self) -> float:
        """The published number."""
        return float(self.published)

    @property
    def last_digit(self) -> float:
        """One unit in the last digit that the paper prints."""
        exponent = Decimal(self.published).as_tuple().exponent
        return 10.0 ** int(exponent)


@dataclass(frozen=True)
class Condition:
    """A statement of a claim, tested by an experiment, found there by the words it begins with.

    ``threshold`` says whose the limit in it is: the paper's, or ours because the paper names none.
    """

    result: str
    statement: str
    threshold: Literal["paper", "ours"] = "ours"


@dataclass(frozen=True)
class Erratum:
    """Where the paper's text is wrong or loose, with the test that runs the counterexample.

    Only what is ``wrong`` corrects a claim; a ``slip`` leaves it as it stands, and a ``remark`` is no
    mistake of the paper at all. The tests are those of the project that show it.
    """

    title: str
    text: str
    weight: Weight = "wrong"
    tests: tuple[str, ...] = ()


@dataclass(frozen=True)
class Claim:
    """A claim of a paper, and what speaks for it.

    ``work`` is the text that makes it (the slides and the paper they explain share one file). ``tests``
    and ``lemmas`` are evidence, too: the ids of tests, and rows of the library's trusted base.
    ``substitutes`` names the models or data that stand in for the paper's. ``not_tried`` is the reason
    why there is no evidence. ``beyond`` marks what the paper does not say, and ours takes further;
    ``experiment`` is then what shows it. ``about`` goes with the claim wherever it is shown.
    """

    id: str
    work: str
    kind: Kind
    place: str
    title: str
    says: str
    about: str = ""
    tests: tuple[str, ...] = ()
    lemmas: tuple[str, ...] = ()
    values: tuple[Value, ...] = ()
    conditions: tuple[Condition, ...] = ()
    errata: tuple[Erratum, ...] = ()
    substitutes: str = ""
    not_tried: str = ""
    beyond: bool = False
    experiment: str = ""

    @property
    def experiments(self) -> tuple[str, ...]:
        """The experiments that speak to it, each once."""
        named = [one.result for one in self.conditions] + [one.result for one in self.values]
        return tuple(dict.fromkeys([*([self.experiment] if self.experiment else []), *named]))

    @property
    def basis(self) -> tuple[str, ...]:
        """What kinds of evidence there are: proven, tested, measured."""
        kinds = {
            "proven": bool(self.lemmas),
            "tested": bool(self.tests) or any(one.tests for one in self.errata),
            "measured": bool(self.values or self.conditions or self.experiment),
        }
        return tuple(kind for kind, there in kinds.items() if there)


@dataclass(frozen=True)
class Run:
    """What a run says: the values of every row over its seeds, and which statements hold.

    Published numbers are compared with runs at ``full`` scale alone; a ``smoke`` run judges nothing.
    """

    rows: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    statements: Mapping[str, bool] = field(default_factory=dict)
    scale: str = "full"

    @property
    def is_smoke(self) -> bool:
        """Whether it is too small to judge anything by."""
        return self.scale == "smoke"

    def statement(self, beginning: str) -> str | None:
        """Return the one statement that begins so."""
        found = [text for text in self.statements if text.startswith(beginning)]
        return found[0] if len(found) == 1 else None


Runs = Callable[[str], Run | None]
"""The run of an experiment, by its name; ``None`` where none is stored."""
