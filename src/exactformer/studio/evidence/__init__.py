"""Claims and the evidence for them: stored runs, demonstrations, sources."""
