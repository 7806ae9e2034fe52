"""The law behind noisy data: a scikit-learn estimator whose model is a transformer."""
