"""Hearing of answers: what readers follow, what they are told, and feeds for those without account."""
