"""What a certified transformer is, whatever the theorem."""
