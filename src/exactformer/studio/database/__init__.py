"""Tables of the studio, the engine that opens them, and migrations that make them."""
