"""Options, output and input that several commands share."""
