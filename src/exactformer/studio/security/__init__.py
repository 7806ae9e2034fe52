"""Passwords, sessions, request forgery, rates, headers and sizes: what keeps visitors honest."""
