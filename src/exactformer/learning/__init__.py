"""Learning a law from noisy data: a scikit-learn estimator, training as in the paper, baselines."""
