"""Progress of a training run on the terminal: one line that is written over."""

from __future__ import annotations

import sys

from exactformer.learning.laws.trained.training import Progress


def show(progress: Progress) -> None:
    """Write epochs, training error and the time left to standard error."""
    line = (
        f"\repoch {progress.epoch}/{progress.epochs}  train MSE {progress.train_mse:.4g}  "
        f"{progress.seconds:.0f} s, {progress.seconds_left:.0f} s left   "
    )
    sys.stderr.write(line + ("\n" if progress.epoch == progress.epochs else ""))
    sys.stderr.flush()
