"""The studio: constructions to try in a browser, and a living page for every paper.

settings     what `exactformer serve` was asked for
database/    tables, engine, migrations
security/    passwords, sessions, request forgery, roles, rate limits, headers
services/    what can be done, said once: pages and the JSON API call the same functions
playground/  compile requests, answered by worker processes with limits
api/         JSON under /api/v1
pages/       HTML for people
"""
