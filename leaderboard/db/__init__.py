"""The database: tables, the engine for SQLite and PostgreSQL, and migrations."""
