from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from exactformer.errors import InputError
from exactformer.learning.ensembles import LinearRNNConfiguration, LinearRNNEnsemble
from tests.examples import examples


def ensemble(count=2, **options):
    configurations = [LinearRNNConfiguration(seed=s, **options) for s in range(count)]
    return LinearRNNEnsemble(configurations, dtype=torch.float64)


def by_recurrence(weights, x):
    """h(t) = W h(t − 1) + U x(t) + b, y(t) = c h(t) + offset, one step after another."""
    W, U, c = (weights[f"{name}_weight"] for name in ("recurrent", "input", "output"))
    h, outputs = torch.zeros(len(x), len(W), dtype=W.dtype), []
    for t in range(x.shape[1]):
        h = h @ W.T + x[:, t] @ U.T + weights.get("bias", 0)
        outputs.append(h @ c.T + weights.get("offset", 0))
    return torch.stack(outputs, dim=1)


@given(
    st.integers(1, 37),
    st.integers(1, 3),
    st.integers(1, 2),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["default", "orthogonal", "shift"]),
)
@settings(max_examples=examples(40))
def test_the_response_does_what_the_recurrence_does(tau, d, o, bias, offset, start):
    made = ensemble(states=8, input_dim=d, output_dim=o, bias=bias, offset=offset, start=start)
    x = torch.rand(5, tau, d, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = made(x if d > 1 else x.squeeze(-1))
    for model in range(2):
        weights = made.weights(model)
        expected = by_recurrence(weights, x)
        # κ(s) = cW^sU is a sum of products of at most τ + 2 factors, each product of matrices with
        # 8 terms an entry: relative to the sum of absolute values it is off by 8 (τ + 2) u.
        size = by_recurrence({k: v.abs() for k, v in weights.items()}, x)
        allowed = 4 * 8 * (tau + 2) * 2**-53 * size
        output = found[model] if o > 1 else found[model].unsqueeze(-1)
        assert torch.all((output - expected).abs() <= allowed)


def test_a_shift_register_has_its_output_weights_as_response():
    made = ensemble(states=12, start="shift", noise=0.0)
    responses = made.responses(10)[..., 0, 0]
    assert torch.equal(responses, made.output_weight[:, 0, :10])


def test_two_inputs_have_a_register_each():
    made = ensemble(states=12, input_dim=2, start="shift", noise=0.0)
    assert torch.equal(made.responses(6).flatten(1), made.output_weight[:, 0])


def test_an_orthogonal_start_keeps_lengths_up_to_the_radius():
    W = ensemble(states=16, start="orthogonal", radius=0.9).recurrent_weight.detach()
    expected = 0.81 * torch.eye(16, dtype=torch.float64).expand(2, -1, -1)
    torch.testing.assert_close(W.mT @ W, expected, rtol=0, atol=1e-13)
    assert not torch.equal(W[0], W[1])


def test_a_network_does_not_depend_on_its_company():
    one = LinearRNNConfiguration(seed=4, states=6, start="orthogonal", bias=True)
    others = [replace(one, seed=2), one, replace(one, start="default")]
    together, alone = LinearRNNEnsemble(others), LinearRNNEnsemble([one])
    for name, weight in alone.weights(0).items():
        assert torch.equal(together.weights(1)[name], weight), name


def test_what_is_no_network_is_refused():
    with pytest.raises(InputError, match="none of default, orthogonal, shift"):
        LinearRNNConfiguration(start="register")
    with pytest.raises(InputError, match="2 states do not hold an input of 3"):
        LinearRNNConfiguration(states=2, input_dim=3)
    with pytest.raises(InputError, match="share states"):
        LinearRNNEnsemble([LinearRNNConfiguration(states=n) for n in (4, 5)])
