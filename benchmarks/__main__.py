"""``make bench``: every benchmark, one table each. ``--quick``: toy sizes, nothing written."""

import argparse

from benchmarks import (
    compiling,
    dynamics,
    ensembles,
    evaluating,
    laws,
    learning,
    lengths,
    programs,
    scaling,
    spectra,
    studio,
)

parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
parser.add_argument("--quick", action="store_true", help="toy sizes, nothing written")
quick = parser.parse_args().quick

evaluating.evaluate(quick)
lengths.compare_lengths(quick)
compiling.run(quick)
scaling.scale(quick)
learning.run(sizes=[(2, 2, 10_000)] if quick else None)
dynamics.run(quick)
laws.run("iris, petal width" if quick else None)
ensembles.run(quick)
spectra.run(quick)
programs.run(quick)
studio.run(quick)
