"""Stranded work that is moved to another version."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_instant = sa.BigInteger().with_variant(sa.DateTime(timezone=True), "postgresql")


def upgrade() -> None:
    op.create_table(
        "migration",
        sa.Column("id", sa.String),
        sa.Column("recovery_id", sa.String, nullable=False),
        sa.Column("app_version", sa.String, nullable=False),
        sa.Column("method", sa.String, nullable=False),
        sa.Column("has_more", sa.Boolean, nullable=False),
        sa.Column("begun_at", _instant, nullable=False),
        sa.Column("ended_at", _instant),
        sa.PrimaryKeyConstraint("id", name="pk_migration"),
        sa.ForeignKeyConstraint(
            ["recovery_id"],
            ["recovery.id"],
            name="fk_migration_recovery_id",
            ondelete="CASCADE",
        ),
    )
    op.create_index(
        "ix_migration_recovery", "migration", ["recovery_id", "begun_at", "id"]
    )
    op.create_index(
        "ix_migration_open",
        "migration",
        ["begun_at"],
        sqlite_where=sa.text("ended_at IS NULL"),
        postgresql_where=sa.text("ended_at IS NULL"),
    )
    op.create_table(
        "migration_item",
        sa.Column("migration_id", sa.String),
        sa.Column("position", sa.Integer),
        sa.Column("workflow_id", sa.String, nullable=False),
        sa.Column("name", sa.String),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("start_step", sa.BigInteger, nullable=False),
        sa.Column("new_workflow_id", sa.String),
        sa.Column("queue_name", sa.String),
        sa.Column("queue_partition_key", sa.String),
        sa.Column("children", sa.JSON, nullable=False),
        sa.Column("reason", sa.String),
        sa.PrimaryKeyConstraint("migration_id", "position", name="pk_migration_item"),
        sa.ForeignKeyConstraint(
            ["migration_id"],
            ["migration.id"],
            name="fk_migration_item_migration_id",
            ondelete="CASCADE",
        ),
    )


def downgrade() -> None:
    op.drop_table("migration_item")
    op.drop_table("migration")
