"""
Alembic's entry: runs migrations on the connection that `relay.store.schema` hands over.

The transaction belongs to the caller, so a migration that fails leaves nothing behind.
"""

from alembic import context

from relay.store.tables import metadata

connection = context.config.attributes.get("connection")
if connection is None:
    raise RuntimeError("migrations run through `relay migrate`, not through `alembic`")

context.configure(
    connection=connection,
    target_metadata=metadata,
    # SQLite cannot alter a table in place; Alembic then copies it.
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
