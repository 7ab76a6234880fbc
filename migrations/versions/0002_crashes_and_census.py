"""What the crash brake counts, and what the census finds."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_instant = sa.BigInteger().with_variant(sa.DateTime(timezone=True), "postgresql")


def upgrade() -> None:
    op.add_column("recovery", sa.Column("lost_at", _instant))
    op.add_column("recovery", sa.Column("acknowledged_at", _instant))
    op.create_index(
        "ix_recovery_executor", "recovery", ["application_id", "executor_id"]
    )
    op.add_column("tombstone", sa.Column("reopened_at", _instant))
    op.create_table(
        "workflow_loss",
        sa.Column("application_id", sa.String),
        sa.Column("workflow_id", sa.String),
        sa.Column("name", sa.String),
        sa.Column("losses", sa.Integer, nullable=False),
        sa.Column("last_lost_at", _instant, nullable=False),
        sa.Column("handed_on_at", _instant),
        sa.PrimaryKeyConstraint(
            "application_id", "workflow_id", name="pk_workflow_loss"
        ),
        sa.ForeignKeyConstraint(
            ["application_id"],
            ["application.id"],
            name="fk_workflow_loss_application_id",
            ondelete="CASCADE",
        ),
    )
    op.create_index("ix_workflow_loss_last_lost_at", "workflow_loss", ["last_lost_at"])
    op.create_table(
        "unknown_owner",
        sa.Column("application_id", sa.String),
        sa.Column("executor_id", sa.String),
        sa.Column("app_version", sa.String),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("pending_count", sa.BigInteger, nullable=False),
        sa.Column("first_seen_at", _instant, nullable=False),
        sa.Column("last_seen_at", _instant, nullable=False),
        sa.PrimaryKeyConstraint(
            "application_id", "executor_id", "app_version", name="pk_unknown_owner"
        ),
        sa.ForeignKeyConstraint(
            ["application_id"],
            ["application.id"],
            name="fk_unknown_owner_application_id",
            ondelete="CASCADE",
        ),
    )
    op.create_table(
        "census",
        sa.Column("application_id", sa.String),
        sa.Column("taken_at", _instant, nullable=False),
        sa.Column("answered_by", sa.String, nullable=False),
        sa.Column("pending_count", sa.BigInteger, nullable=False),
        sa.Column("is_complete", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("application_id", name="pk_census"),
        sa.ForeignKeyConstraint(
            ["application_id"],
            ["application.id"],
            name="fk_census_application_id",
            ondelete="CASCADE",
        ),
    )
    op.create_table(
        "dispute",
        sa.Column("application_id", sa.String),
        sa.Column("since", _instant, nullable=False),
        sa.Column("sides", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("application_id", name="pk_dispute"),
        sa.ForeignKeyConstraint(
            ["application_id"],
            ["application.id"],
            name="fk_dispute_application_id",
            ondelete="CASCADE",
        ),
    )


def downgrade() -> None:
    op.drop_table("dispute")
    op.drop_table("census")
    op.drop_table("unknown_owner")
    op.drop_table("workflow_loss")
    op.drop_column("tombstone", "reopened_at")
    op.drop_index("ix_recovery_executor", "recovery")
    op.drop_column("recovery", "acknowledged_at")
    op.drop_column("recovery", "lost_at")
