"""Save a model, prove the file from scratch, and see a single altered weight refused."""

import tempfile
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import exactformer as ef
from exactformer.core.matrix import Matrix
from exactformer.polynomials.files import save_blueprint

with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "law.safetensors"
    ef.compile("x^2 + 3 x y", radius=2).save(file)
    print(ef.certify(file, "x^2 + 3 x y"))

    # An altered copy with every checksum renewed: only the proof can tell.
    blueprint = ef.load(file).blueprint
    features = blueprint.embedding.features
    entries = {**features.entries, (0, 0): features[0, 0] + Fraction(1, 10**12)}
    altered = replace(blueprint.embedding, features=Matrix.of(*features.shape, entries))
    save_blueprint(replace(blueprint, embedding=altered), file)
    try:
        ef.certify(file, "x^2 + 3 x y")
    except ef.ExactformerError as error:
        print(f"\nrefused: {error}")
