"""Which families can be had here."""

from __future__ import annotations

import pytest

from tests.spectra import families


def hugging_face_is_here() -> bool:
    try:
        from transformers import BertModel  # noqa: F401
    except ImportError:
        return False
    return True


def timm_is_here() -> bool:
    try:
        import timm  # noqa: F401
    except (ImportError, RuntimeError):  # a torchvision built for another torch raises RuntimeError
        return False
    return True


@pytest.fixture(autouse=True)
def _family_is_installed(request: pytest.FixtureRequest) -> None:
    callspec = getattr(request.node, "callspec", None)
    make = callspec.params.get("make") if callspec else None
    if make in families.HUGGING_FACE and not hugging_face_is_here():
        pytest.skip("transformers is not installed")
    if make in families.TIMM and not timm_is_here():
        pytest.skip("timm, or a torchvision built for this torch, is not installed")
