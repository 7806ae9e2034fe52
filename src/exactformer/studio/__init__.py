"""The studio: constructions to try in a browser, and a living page for every paper.

settings, database, app, serving    what `exactformer serve` was asked for, opened and answered
web/         what all routes share: who asks, reading and writing, pages, markup, errors
security/    passwords, sessions, request forgery, roles, rate limits, headers
storage/     engine, migrations, the audit log, statements that features share
accounts/ library/ opinions/ evidence/ notices/ proposals/ map/ playground/
             features: the tables, the service, and the pages
"""
