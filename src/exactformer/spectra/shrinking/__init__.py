"""Smaller attention heads: fewer dimensions for queries and keys, with what that saves and costs."""
