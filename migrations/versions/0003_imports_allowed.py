"""Whether an application takes imports, which can run code inside its executors."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "application",
        sa.Column(
            "imports_allowed", sa.Boolean, nullable=False, server_default=sa.false()
        ),
    )


def downgrade() -> None:
    op.drop_column("application", "imports_allowed")
