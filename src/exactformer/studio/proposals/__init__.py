"""Bringing a paper: an identifier, an address or a record, proposed by readers."""
