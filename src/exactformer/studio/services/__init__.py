"""What can be done in the studio, said once: pages and the JSON API call the same functions."""
