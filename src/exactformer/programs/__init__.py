"""RASP programs into transformers."""
