"""Models of an ensemble: every parameter has a leading axis for the model."""
