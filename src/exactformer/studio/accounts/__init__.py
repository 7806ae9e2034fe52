"""Accounts: users, login, administration."""
