"""JSON for programs, under /api/v1, by the same rules as the pages."""
