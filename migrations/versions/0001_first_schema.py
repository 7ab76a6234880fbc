"""The first schema."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

# A migration spells its types out: what `relay.db` makes of them may change later.
_instant = sa.BigInteger().with_variant(sa.DateTime(timezone=True), "postgresql")
_milliseconds = sa.BigInteger()


def upgrade() -> None:
    _create_schema_versions()
    _create_tenants()
    _create_executors()
    _create_ledger()
    _create_keys()
    _create_audit_log()


def downgrade() -> None:
    for table in (
        "audit_entry",
        "api_key_application",
        "api_key",
        "tombstone",
        "recovery",
        "executor",
        "deleted_application",
        "application",
        "organization",
        "instance",
        "relay_schema",
    ):
        op.drop_table(table)


def _create_schema_versions() -> None:
    relay_schema = op.create_table(
        "relay_schema",
        sa.Column("id", sa.Integer, autoincrement=False),
        sa.Column("min_compatible", sa.String, nullable=False),
        sa.Column("migrated_by", sa.String, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_relay_schema"),
        sa.CheckConstraint("id = 1", name=op.f("ck_relay_schema_one_row")),
    )
    # No Relay is too old for the first schema. `migrated_by` is filled in by whoever
    # runs the chain.
    op.bulk_insert(relay_schema, [{"id": 1, "min_compatible": "0", "migrated_by": "0"}])
    op.create_table(
        "instance",
        sa.Column("id", sa.String),
        sa.Column("started_at", _instant, nullable=False),
        sa.Column("version", sa.String, nullable=False),
        sa.Column("advertise_address", sa.String),
        sa.PrimaryKeyConstraint("id", name="pk_instance"),
    )


def _create_tenants() -> None:
    op.create_table(
        "organization",
        sa.Column("id", sa.String),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("created_at", _instant, nullable=False),
        sa.Column("audit_retention_ms", _milliseconds, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_organization"),
        sa.UniqueConstraint("name", name="uq_organization_name"),
    )
    op.create_table(
        "application",
        sa.Column("id", sa.String),
        sa.Column("organization_id", sa.String, nullable=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("created_at", _instant, nullable=False),
        sa.Column("executor_timeout_ms", _milliseconds, nullable=False),
        sa.Column("gc_time_threshold_ms", _milliseconds),
        sa.Column("gc_rows_threshold", sa.BigInteger),
        sa.Column("global_timeout_ms", _milliseconds),
        sa.Column("private_mode", sa.Boolean, nullable=False),
        sa.Column("language", sa.String),
        sa.Column("version_policy", sa.String, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_application"),
        sa.ForeignKeyConstraint(
            ["organization_id"],
            ["organization.id"],
            name="fk_application_organization_id",
        ),
        sa.UniqueConstraint(
            "organization_id", "name", name="uq_application_organization_id"
        ),
    )
    op.create_table(
        "deleted_application",
        sa.Column("organization_id", sa.String),
        sa.Column("name", sa.String),
        sa.Column("deleted_at", _instant, nullable=False),
        sa.PrimaryKeyConstraint(
            "organization_id", "name", name="pk_deleted_application"
        ),
        sa.ForeignKeyConstraint(
            ["organization_id"],
            ["organization.id"],
            name="fk_deleted_application_organization_id",
        ),
    )


def _create_executors() -> None:
    op.create_table(
        "executor",
        sa.Column("application_id", sa.String),
        sa.Column("executor_id", sa.String),
        sa.Column("app_version", sa.String, nullable=False),
        sa.Column("hostname", sa.String),
        sa.Column("language", sa.String),
        sa.Column("dbos_version", sa.String),
        sa.Column("metadata", sa.JSON),
        sa.Column("status", sa.String, nullable=False),
        sa.Column("status_since", _instant, nullable=False),
        sa.Column("created_at", _instant, nullable=False),
        sa.Column("last_seen_at", _instant, nullable=False),
        sa.Column("peer_address", sa.String, nullable=False),
        sa.Column("owner", sa.String, nullable=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("connection_id", sa.String, nullable=False),
        sa.Column("grace_started_at", _instant),
        sa.Column("grace_is_fault", sa.Boolean, nullable=False),
        sa.Column("dead_after", _instant),
        sa.Column("unseen_starts", sa.Integer, nullable=False),
        sa.Column("last_error", sa.String),
        sa.PrimaryKeyConstraint("application_id", "executor_id", name="pk_executor"),
        _owned_by_application("executor"),
        sa.CheckConstraint(
            "status <> 'DISCONNECTED'"
            " OR (dead_after IS NOT NULL AND grace_started_at IS NOT NULL)",
            name=op.f("ck_executor_deadline"),
        ),
        # Last-seen times are rewritten all the time: half of each page stays free, so
        # that the new version of a row fits beside the old one.
        postgresql_with={"fillfactor": 50},
    )
    _create_partial_index(
        "ix_executor_dead_after",
        "executor",
        ["dead_after"],
        where="status = 'DISCONNECTED'",
    )


def _create_ledger() -> None:
    op.create_table(
        "recovery",
        sa.Column("id", sa.String),
        sa.Column("application_id", sa.String, nullable=False),
        sa.Column("executor_id", sa.String, nullable=False),
        sa.Column("app_version", sa.String, nullable=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("opened_at", _instant, nullable=False),
        sa.Column("updated_at", _instant, nullable=False),
        sa.Column("next_attempt_at", _instant),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("claimed_by", sa.String),
        sa.Column("target", sa.String),
        sa.Column("ordered_at", _instant),
        sa.Column("order_deadline", _instant),
        sa.Column("pending_count", sa.BigInteger),
        sa.Column("pending_ids", sa.JSON, nullable=False),
        sa.Column("tried_versions", sa.JSON, nullable=False),
        sa.Column("suspect_ids", sa.JSON),
        sa.Column(
            "brake_level", sa.Integer, nullable=False, server_default=sa.text("0")
        ),
        sa.Column("reason", sa.String),
        sa.Column("is_verified", sa.Boolean),
        sa.Column("closed_at", _instant),
        sa.PrimaryKeyConstraint("id", name="pk_recovery"),
        _owned_by_application("recovery"),
        sa.CheckConstraint(
            "(closed_at IS NOT NULL) = (state IN ('DONE', 'RETURNED', 'ABANDONED'))",
            name=op.f("ck_recovery_closed"),
        ),
    )
    _create_partial_index(
        "uq_recovery_open",
        "recovery",
        ["application_id", "executor_id"],
        where="closed_at IS NULL",
        is_unique=True,
    )
    _create_partial_index(
        "ix_recovery_due",
        "recovery",
        ["next_attempt_at"],
        where="closed_at IS NULL AND claimed_by IS NULL",
    )
    _create_partial_index(
        "ix_recovery_claimed",
        "recovery",
        ["claimed_by"],
        where="claimed_by IS NOT NULL",
    )
    op.create_index(
        "ix_recovery_application", "recovery", ["application_id", "opened_at", "id"]
    )
    op.create_index("ix_recovery_opened", "recovery", ["opened_at", "id"])
    op.create_table(
        "tombstone",
        sa.Column("application_id", sa.String),
        sa.Column("executor_id", sa.String),
        sa.Column("app_version", sa.String),
        sa.Column("recovery_id", sa.String, nullable=False),
        sa.Column("deleted_at", _instant, nullable=False),
        sa.PrimaryKeyConstraint(
            "application_id", "executor_id", "app_version", name="pk_tombstone"
        ),
        _owned_by_application("tombstone"),
    )
    op.create_index("ix_tombstone_deleted_at", "tombstone", ["deleted_at"])


def _create_keys() -> None:
    op.create_table(
        "api_key",
        sa.Column("id", sa.String),
        sa.Column("organization_id", sa.String, nullable=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("secret_hash", sa.LargeBinary, nullable=False),
        sa.Column("created_at", _instant, nullable=False),
        sa.Column("last_used_at", _instant),
        sa.Column("revoked_at", _instant),
        sa.Column("permissions", sa.JSON, nullable=False),
        sa.Column("all_applications", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_api_key"),
        sa.ForeignKeyConstraint(
            ["organization_id"], ["organization.id"], name="fk_api_key_organization_id"
        ),
        sa.UniqueConstraint("secret_hash", name="uq_api_key_secret_hash"),
    )
    _create_partial_index(
        "uq_api_key_live_name",
        "api_key",
        ["organization_id", "name"],
        where="revoked_at IS NULL",
        is_unique=True,
    )
    _create_partial_index(
        "ix_api_key_revoked_at",
        "api_key",
        ["revoked_at"],
        where="revoked_at IS NOT NULL",
    )
    op.create_table(
        "api_key_application",
        sa.Column("key_id", sa.String),
        sa.Column("application_id", sa.String),
        sa.PrimaryKeyConstraint(
            "key_id", "application_id", name="pk_api_key_application"
        ),
        sa.ForeignKeyConstraint(
            ["key_id"],
            ["api_key.id"],
            name="fk_api_key_application_key_id",
            ondelete="CASCADE",
        ),
        _owned_by_application("api_key_application"),
    )
    op.create_index(
        "ix_api_key_application_application_id",
        "api_key_application",
        ["application_id"],
    )


def _create_audit_log() -> None:
    op.create_table(
        "audit_entry",
        sa.Column("id", sa.String),
        sa.Column("organization_id", sa.String, nullable=False),
        sa.Column("emitted_at", _instant, nullable=False),
        sa.Column("operation", sa.String, nullable=False),
        sa.Column("status", sa.String, nullable=False),
        sa.Column("subject_kind", sa.String, nullable=False),
        sa.Column("subject_id", sa.String, nullable=False),
        sa.Column("subject_display", sa.String, nullable=False),
        sa.Column("target_kind", sa.String),
        sa.Column("target_id", sa.String),
        sa.Column("source_ip", sa.String, nullable=False),
        sa.Column("details", sa.JSON, nullable=False),
        sa.Column("recovery_id", sa.String),
        sa.PrimaryKeyConstraint("id", name="pk_audit_entry"),
        sa.ForeignKeyConstraint(
            ["organization_id"],
            ["organization.id"],
            name="fk_audit_entry_organization_id",
        ),
    )
    op.create_index("ix_audit_entry_newest", "audit_entry", ["organization_id", "id"])
    op.create_index(
        "ix_audit_entry_operation",
        "audit_entry",
        ["organization_id", "operation", "id"],
    )
    op.create_index(
        "ix_audit_entry_target", "audit_entry", ["organization_id", "target_id", "id"]
    )
    _create_partial_index(
        "ix_audit_entry_recovery",
        "audit_entry",
        ["recovery_id", "id"],
        where="recovery_id IS NOT NULL",
    )


def _owned_by_application(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["application_id"],
        ["application.id"],
        name=f"fk_{table}_application_id",
        ondelete="CASCADE",
    )


def _create_partial_index(
    name: str, table: str, columns: list[str], *, where: str, is_unique: bool = False
) -> None:
    op.create_index(
        name,
        table,
        columns,
        unique=is_unique,
        sqlite_where=sa.text(where),
        postgresql_where=sa.text(where),
    )
