"""Notices: what readers follow, and what they are told."""
