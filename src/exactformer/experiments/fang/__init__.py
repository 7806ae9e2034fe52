"""Fang, Ouyang, Zhou, Cheng 2022: Attention enables zero approximation error."""
