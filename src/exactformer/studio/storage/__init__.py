"""The database: engine, migrations, the audit log, and statements that features share."""
