"""Code blocks of the site that are not run when it is built: they run here, a page at a time."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from docs.hooks import SCRIPT

ROOT = Path(__file__).parents[2]
PLAIN = re.compile(r'^```python(?: title="[^"]*")?\n(.*?)^```$', re.DOTALL | re.MULTILINE)
SHOWN = re.compile(r"^(?P<code>\S.*?\S) +# (?P<literal>'[^']*'|\([^)…]*\)|-?[\d.]+)$")
PAGES = {
    str(page.relative_to(ROOT / "docs")): page.read_text()
    for page in sorted((ROOT / "docs").rglob("*.md"))
    if PLAIN.search(page.read_text())
}


def _model(folder: Path) -> None:
    """Save an encoder of four layers and a tokenizer of six words."""
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=11,
        hidden_size=64,
        num_hidden_layers=4,
        num_attention_heads=2,
        intermediate_size=64,
    )
    transformers.BertModel(config).save_pretrained(folder)
    words = "[PAD] [UNK] [CLS] [SEP] [MASK] a cat sat on the mat".split()
    (folder / "vocab.txt").write_text("\n".join(words))
    transformers.BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)


def _given(page: str) -> dict[str, Any]:
    """Return the names that a page takes for granted."""
    import exactformer as ef

    if page == "guide/exporting.md":
        pytest.importorskip("onnxruntime")
        return {"torch": torch, "points": np.zeros((3, 2))}
    if page in ("guide/spectra.md", "guide/contextual-mappings.md"):
        folder = Path("path/to/model")
        _model(folder)
        sentences = ["a cat sat on the mat", "the mat sat", "the cat"]
        from transformers import AutoTokenizer

        tokens = AutoTokenizer.from_pretrained(folder)(sentences, padding=True, return_tensors="pt")
        return {"ef": ef, "sentences": sentences, "name": str(folder), "tokens": tokens}
    if page == "guide/couplings.md":
        names: dict[str, Any] = {}
        script = SCRIPT.search(PAGES[page])
        assert script is not None
        exec(script[1], names)
        return names
    return {}


@pytest.mark.parametrize("page", PAGES)
def test_the_blocks_of_a_page_run_and_show_what_they_give(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = _given(page)
    for block in PLAIN.findall(PAGES[page]):
        if "torch.export.Dim" in block:
            names["points"] = torch.zeros(3, 2, dtype=torch.float64)
        exec(compile(block, page, "exec"), names)
        for line in block.splitlines():
            if shown := SHOWN.match(line):
                expected = ast.literal_eval(shown["literal"])
                assert eval(shown["code"], names) == expected, line
