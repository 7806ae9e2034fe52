"""Laws by gradient descent, as in section 5 of Fang et al."""
