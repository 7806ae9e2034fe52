"""Laws for prediction: the least held-out error, shrinkage allowed."""
