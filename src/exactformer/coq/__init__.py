"""Certificates as Coq files: a library of definitions and proofs, files for models, and their check."""
