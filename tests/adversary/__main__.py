"""The searches from the command line: ``python -m tests.adversary polynomials --count 1000``."""

from __future__ import annotations

import argparse
import os

import exactformer
from tests.adversary.engine import FAMILIES, Outcome, search, write


def main() -> int:
    """Search, print the table, and return 1 where there is a finding."""
    parser = argparse.ArgumentParser(prog="python -m tests.adversary", description=__doc__)
    parser.add_argument("family", choices=FAMILIES)
    parser.add_argument("--count", type=int, default=1000, help="number of candidates")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first candidate")
    parser.add_argument("--jobs", type=int, default=1, help="number of processes")
    parser.add_argument("--json", help="file for the counts and findings")
    parser.add_argument("--commit", help="commit to record in that file")
    options = parser.parse_args()
    # As in the tests: oneDNN uses instructions for float16 that some virtual processors do not have.
    os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
    seeds = range(options.seed, options.seed + options.count)
    tally = search(options.family, seeds, options.jobs)
    print(tally)
    if options.json:
        version = exactformer.__version__
        write(tally, options.json, options.family, options.seed, version, options.commit)
    return int(any(tally.outcomes[outcome] for outcome in (Outcome.FALSE, Outcome.CRASHED)))


if __name__ == "__main__":
    raise SystemExit(main())
