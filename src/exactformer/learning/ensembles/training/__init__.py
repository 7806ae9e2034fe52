"""Training of an ensemble: optimisers, batches, stopping."""
