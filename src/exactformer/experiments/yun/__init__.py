"""Yun et al. 2020: Are transformers universal approximators of sequence-to-sequence functions?"""
