"""Coupling blueprints on disk: lossless, sealed, without pickle."""

from dataclasses import replace

import numpy as np
import pytest

from exactformer.core.files import kind_of
from exactformer.couplings.blueprint import CouplingBlueprint
from exactformer.couplings.construction import draw_coupling
from exactformer.couplings.files import load_coupling, save_coupling
from exactformer.errors import FileFormatError, InputError


def drawn(positions=None, vector: bool = False) -> CouplingBlueprint:
    def phi(u):
        return np.stack([np.sin(u), u / 3], axis=-1)

    def f(u):
        return np.stack([u, u**2], axis=-1) if vector else np.exp(u)

    def outer(h):
        return h[..., 0] * h[..., 1] if vector else np.tanh(h)

    return draw_coupling(
        phi, phi, f, outer, tau=3, head_dim=2, ff_width=12, domain=(0.1, 0.7), positions=positions
    )


@pytest.mark.parametrize("positions", [None, (0.3, 5.0, 1.1)])
@pytest.mark.parametrize("vector", [False, True])
def test_what_is_saved_is_read_back_exactly(tmp_path, positions, vector):
    blueprint = replace(drawn(positions, vector), metadata={"target": "τ"})
    save_coupling(blueprint, tmp_path / "model")
    loaded = load_coupling(tmp_path / "model")
    assert kind_of(tmp_path / "model") == "coupling"
    for name in ("tau", "domain", "positions", "head_dim", "metadata", "dimensions"):
        assert getattr(loaded, name) == getattr(blueprint, name)
    assert loaded.features.knots == blueprint.features.knots
    assert (loaded.features.values == blueprint.features.values).all()
    assert (loaded.outer.values == blueprint.outer.values).all()
    assert type(loaded.outer) is type(blueprint.outer)


def test_a_changed_file_is_refused(tmp_path):
    save_coupling(drawn(), tmp_path / "model")
    content = bytearray((tmp_path / "model").read_bytes())
    content[-3] ^= 1
    (tmp_path / "model").write_bytes(content)
    with pytest.raises(FileFormatError, match=r"weights outer\.values are not those"):
        load_coupling(tmp_path / "model")
    (tmp_path / "model").write_bytes(content[:-20])
    with pytest.raises(FileFormatError, match="truncated"):
        load_coupling(tmp_path / "model")
    assert kind_of(tmp_path / "nothing") is None


def test_rows_have_names_and_the_matrices_select_them():
    blueprint = drawn(vector=True)
    assert blueprint.dimensions == ("phi_1", "phi_2", "psi_1", "psi_2", "value_1", "value_2")
    for matrix, first in ((blueprint.query, 0), (blueprint.key, 2), (blueprint.value, 4)):
        assert dict(matrix.entries) == {(k, first + k): 1 for k in range(2)}


def test_what_does_not_fit_together_is_refused():
    with pytest.raises(InputError, match="leave none for the values"):
        replace(drawn(), head_dim=3)
    with pytest.raises(InputError, match="2 positions for 3 tokens"):
        replace(drawn(), positions=(0, 1))
    with pytest.raises(InputError, match="cannot be shared among 3"):
        draw_coupling(
            np.sin, np.sin, np.sin, np.sin, tau=3, head_dim=1, ff_width=2, positions=(0, 2, 4)
        )
    with pytest.raises(InputError, match="phi and psi must give head_dim=2"):
        draw_coupling(np.sin, np.sin, np.sin, np.sin, tau=3, head_dim=2, ff_width=2)
    with pytest.raises(InputError, match="F takes 4 numbers"):
        draw_coupling(
            np.sin,
            np.sin,
            lambda u: np.stack([u] * 4, -1),
            lambda h: h[..., 0],
            tau=3,
            head_dim=1,
            ff_width=9,
        )
    with pytest.raises(InputError, match="f is not finite at 0"):
        draw_coupling(np.sin, np.sin, lambda u: u * np.nan, np.sin, tau=3, head_dim=1, ff_width=2)
