"""Golden answers: what many models say and compute, frozen, so that a rebuild shows what it changes."""
