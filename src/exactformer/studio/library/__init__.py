"""Papers: records, search, import, export, and the works a library begins with."""
