"""What can be done in the studio, said once: pages, the JSON API and commands call these."""
