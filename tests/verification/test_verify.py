"""Verdicts: counts are those of brute force, and what cannot be read is refused."""

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import exactformer as ef
from exactformer.errors import InputError, SizeError
from exactformer.verification.verdict import Verdict
from tests.verification.models import Net, every, net, trained


def largest(ids: Tensor) -> Tensor:
    return ids.amax(-1)


def previous(ids: Tensor) -> Tensor:
    return torch.cat([ids[:, :1], ids[:, :-1]], 1)


@cache
def max_net() -> Net:
    return trained(largest, 150, tokens=6, length=3, act="relu")


@cache
def previous_net() -> Net:
    return trained(previous, 120, tokens=4, length=5, causal=True, last=False)


def verdict(model: nn.Module, claim: Any, tokens: int, length: Any, **options: Any) -> Verdict:
    return ef.verify(
        model, claim, vocabulary=range(tokens), length=length, show_progress=False, **options
    )


def wrong_by_brute_force(model: nn.Module, task: Callable[[Tensor], Tensor], n: int, k: int) -> int:
    ids = every(n, k)
    off = model.double()(ids).argmax(-1) != task(ids)
    model.float()
    return int(off.reshape(len(ids), -1).any(1).sum())


@pytest.mark.parametrize("arithmetic", ["real", "float32", "float64", "execution", None])
def test_counts_are_those_of_brute_force(arithmetic: str | None) -> None:
    model = max_net()
    found = verdict(model, max, 6, 3, arithmetic=arithmetic)
    wrong = wrong_by_brute_force(model, largest, 6, 3)
    assert (found.right, found.wrong, found.doubtful) == (6**3 - wrong, wrong, 0)
    assert found.share == (Fraction(6**3 - wrong, 6**3),) * 2
    assert found.agrees is (wrong == 0)


def test_a_planted_error_is_found_with_what_the_model_says() -> None:
    model = max_net()
    found = verdict(model, lambda t: 0 if t == (2, 5, 1) else max(t), 6, 3)
    assert not found.agrees
    case = next(c for c in found.counterexamples if c.tokens == (2, 5, 1))
    assert case.right == (0,)
    assert case.says == (int(model(torch.tensor([[2, 5, 1]] * 2))[0].argmax()),)


@pytest.mark.parametrize("batch", [37, 4096])
def test_sequences_are_right_at_every_position(batch: int) -> None:
    model = previous_net()
    found = verdict(model, lambda t: t[:1] + t[:-1], 4, 5, batch=batch)
    assert found.wrong == wrong_by_brute_force(model, previous, 4, 5)
    assert found.doubtful == 0


def test_a_batched_claim_and_a_rasp_program_say_the_same() -> None:
    from exactformer import rasp

    shift = rasp.Aggregate(
        rasp.Select(rasp.indices, rasp.indices, lambda k, q: k == max(q - 1, 0)), rasp.tokens
    )
    model = previous_net()
    one = verdict(model, shift, 4, 5)
    many = verdict(model, previous, 4, 5, batched=True)
    assert (one.right, one.wrong) == (many.right, many.wrong)


def test_several_lengths_are_one_space() -> None:
    model = previous_net()
    found = verdict(model, lambda t: t[:1] + t[:-1], 4, range(1, 6))
    assert found.total == sum(4**n for n in range(1, 6))
    wrong = sum(wrong_by_brute_force(model, previous, 4, n) for n in range(1, 6))
    assert (found.wrong, found.doubtful) == (wrong, 0)


def test_equal_models_agree_and_others_differ_where_brute_force_says() -> None:
    model = max_net()
    assert verdict(model, model, 6, 3).agrees
    pruned = net(tokens=6, length=3, act="relu")
    pruned.load_state_dict(model.state_dict())
    for w in pruned.parameters():
        w[w.abs() < 0.3] = 0.0
    ids = every(6, 3)
    differ = model.double()(ids).argmax(-1) != pruned.double()(ids).argmax(-1)
    model.float(), pruned.float()
    found = verdict(pruned, model, 6, 3)
    assert (found.wrong, found.doubtful) == (int(differ.sum()), 0)
    assert {c.number for c in found.counterexamples} == set(differ.nonzero()[:, 0].tolist())
    short = net(tokens=6, length=3, act="relu")
    short.load_state_dict(model.state_dict())
    mixed = verdict(short.to(torch.bfloat16), model, 6, 3)
    assert "bfloat16" in mixed.claim
    assert "float32" in mixed.claim
    assert mixed.right + mixed.wrong + mixed.doubtful == 216


def test_what_ends_early_is_continued(monkeypatch: pytest.MonkeyPatch) -> None:
    model = max_net()
    part = verdict(model, max, 6, 3, seconds=0.0, batch=50)
    assert part.unseen == 216 - 50
    assert part.agrees is not True
    assert part.share[1] - part.share[0] >= Fraction(part.unseen, 216)
    whole = verdict(model, max, 6, 3, resume=part)
    once = verdict(model, max, 6, 3)
    assert (whole.right, whole.wrong, whole.unseen) == (once.right, once.wrong, 0)
    with pytest.raises(InputError, match="another model"):
        verdict(net(tokens=6, length=3, act="relu"), max, 6, 3, resume=part)


def test_an_interrupt_returns_the_verdict_so_far() -> None:
    calls = 0

    def claim(tokens: Any) -> int:
        nonlocal calls
        calls += 1
        if calls > 100:
            raise KeyboardInterrupt
        return max(tokens)

    found = verdict(max_net(), claim, 6, 3, batch=60)
    assert found.total - found.unseen == 60
    assert any("interrupted" in reason for reason in found.reasons)


def test_equal_logits_are_undecided() -> None:
    class Even(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding.from_pretrained(torch.tensor([[1.0, 1.0], [0.0, 1.0]]))

        def forward(self, ids: Tensor) -> Tensor:
            return self.table(ids)[:, 0]

    for arithmetic in ("real", "float32", "execution"):
        found = verdict(Even().eval(), lambda t: t[0], 2, 1, arithmetic=arithmetic)
        assert found.agrees is None
        assert (found.right, found.wrong, found.doubtful) == (1, 0, 1)


def test_real_arithmetic_decides_to_hundreds_of_bits_what_float64_cannot() -> None:
    class Close(nn.Module):
        """1 + ε times 1 − ε is below 1 by ε²: more than twice the digits of float64."""

        def __init__(self) -> None:
            super().__init__()
            row = torch.tensor([[1 + 2.0**-40, 1.0]], dtype=torch.float64)
            self.table = nn.Embedding.from_pretrained(row)
            self.scale = nn.Parameter(2 - row[0])

        def forward(self, ids: Tensor) -> Tensor:
            return self.table(ids)[:, 0] * self.scale

    model = Close().eval().requires_grad_(False)
    found = ef.verify(
        *(model, lambda t: 1),
        vocabulary=[0],
        answers=[0, 1],
        length=1,
        arithmetic="real",
        show_progress=False,
    )
    assert found.agrees
    assert "bits" in found.method
    rounded = ef.verify(
        *(model, lambda t: 1), vocabulary=[0], answers=[0, 1], length=1, show_progress=False
    )
    assert rounded.agrees is None


def test_the_print_is_ten_lines_and_the_file_says_the_same(tmp_path: Path) -> None:
    found = verdict(max_net(), max, 6, 3)
    assert len(str(found).splitlines()) == 10
    found.save(tmp_path / "verdict.json")
    loaded = Verdict.load(tmp_path / "verdict.json")
    assert loaded.stated
    assert loaded.to_dict() == found.to_dict()
    assert "stated by the file" in str(loaded)


class Wrapped(nn.Module):
    """A module around a function of its logits and the ids."""

    def __init__(self, change: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.inner, self.change = net(tokens=4, length=2), change
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, ids: Tensor) -> Tensor:
        return self.change(self.inner(ids), ids)


REFUSED: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], str]] = {
    "an operator without a rule": (lambda x, ids: x.exp2(), r"aten\.exp2.*test_verify\.py"),
    "a mask from data": (lambda x, ids: x * (ids[:, :1] > 1), "made from the tokens"),
    "a branch on data": (lambda x, ids: x if ids.sum() > 3 else -x, "torch.export cannot read"),
    "inputs mixed": (lambda x, ids: x - x.mean(0), "mixes the inputs"),
    "a softmax over the batch": (
        lambda x, ids: x.softmax(0),
        "along the batch|softmax over axis 0",
    ),
    "the batch taken for tokens": (
        lambda x, ids: x.t().contiguous().view(len(ids), 4),
        "from one input of the batch to another|cannot read the module",
    ),
    "a product over the batch": (lambda x, ids: x @ (x.mT @ x), "mixes the inputs|along the batch"),
    "the batch reversed": (lambda x, ids: x.flip(0), "aten.flip"),
    "random numbers": (lambda x, ids: x + torch.rand(4), "random|aten.rand"),
    "alpha": (lambda x, ids: torch.add(x, x, alpha=2), "alpha=2"),
    "a cast": (lambda x, ids: x.bfloat16().float(), "bfloat16 inside float32"),
    "another shape": (lambda x, ids: x[:, :, None, None], "shape"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_covered_is_refused_by_name(name: str) -> None:
    change, words = REFUSED[name]
    with pytest.raises(InputError, match=f"(?s){words}"):
        verdict(Wrapped(change).eval().requires_grad_(False), max, 4, 2)


def test_modules_that_are_not_fixed_are_refused() -> None:
    model = Wrapped(lambda x, ids: x)
    with pytest.raises(InputError, match="training mode"):
        verdict(model, max, 4, 2)

    def count(module: Wrapped) -> nn.Module:
        def change(x: Tensor, ids: Tensor) -> Tensor:
            module.calls += 1
            return x * module.calls

        module.change = change
        return module.eval().requires_grad_(False)

    with pytest.raises(InputError, match=r"writes into its buffers|is another one"):
        verdict(count(model), max, 4, 2)
    broken = net(tokens=4, length=2)
    broken.readout.weight[0, 0] = torch.nan
    with pytest.raises(InputError, match="not finite"):
        verdict(broken, max, 4, 2)


def test_bad_claims_and_spaces_are_refused() -> None:
    model = net(tokens=4, length=2)
    for claim, words in (
        (lambda t: 9, "which is not among"),
        (lambda t: 1 // t[0], "raises ZeroDivisionError on .0, 0"),
        ("max", "must be a function"),
    ):
        with pytest.raises(InputError, match=words):
            verdict(model, claim, 4, 2)
    with pytest.raises(InputError, match="4 logits, but there are 3"):
        verdict(model, max, 3, 2)
    with pytest.raises(InputError, match="embedding 4 rows"):
        ef.verify(model, lambda t: 1, vocabulary=range(9), length=2, answers="abcd")
    with pytest.raises(InputError, match="must be one of"):
        verdict(model, max, 4, 2, arithmetic="float8")
    with pytest.raises(InputError, match="cast the module first"):
        verdict(model, max, 4, 2, arithmetic="bfloat16")
    with pytest.raises(InputError, match="has a token twice"):
        ef.verify(model, max, vocabulary="aabc", length=2)
    with pytest.raises(SizeError, match="cannot be enumerated"):
        verdict(net(tokens=4, length=60), max, 4, 60)
    with pytest.raises(SizeError, match="seconds="):
        verdict(net(tokens=4, length=25), max, 4, 25)
    with pytest.raises(InputError, match="not a torch module"):
        verdict("net", max, 4, 2)  # type: ignore[arg-type]
