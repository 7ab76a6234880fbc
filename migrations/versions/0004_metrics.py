"""Counts of workflows, steps and recoveries, and how far they have been collected."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_instant = sa.BigInteger().with_variant(sa.DateTime(timezone=True), "postgresql")
_milliseconds = sa.BigInteger()


def upgrade() -> None:
    op.create_table(
        "collection",
        sa.Column("application_id", sa.String),
        sa.Column("collected_to", _instant, nullable=False),
        sa.PrimaryKeyConstraint("application_id", name="pk_collection"),
        sa.ForeignKeyConstraint(
            ["application_id"],
            ["application.id"],
            name="fk_collection_application_id",
            ondelete="CASCADE",
        ),
    )
    op.create_table(
        "metric",
        sa.Column("application_id", sa.String),
        sa.Column("time_bucket", _instant),
        sa.Column("metric_type", sa.String),
        sa.Column("metric_name", sa.String),
        sa.Column("granularity_ms", _milliseconds, nullable=False),
        sa.Column("value", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint(
            "application_id",
            "time_bucket",
            "metric_type",
            "metric_name",
            name="pk_metric",
        ),
        sa.ForeignKeyConstraint(
            ["application_id"],
            ["application.id"],
            name="fk_metric_application_id",
            ondelete="CASCADE",
        ),
    )


def downgrade() -> None:
    op.drop_table("metric")
    op.drop_table("collection")
