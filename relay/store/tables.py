"""
The tables, as the newest migration leaves them.

A test compares this file with what the migrations build, on every engine.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    UniqueConstraint,
    false,
    text,
)

from relay.db import Instant, Json, Span

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    }
)

relay_schema = Table(
    "relay_schema",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("min_compatible", String, nullable=False),
    Column("migrated_by", String, nullable=False),
    CheckConstraint("id = 1", name="one_row"),
)

instance = Table(
    "instance",
    metadata,
    Column("id", String, primary_key=True),
    Column("started_at", Instant, nullable=False),
    Column("version", String, nullable=False),
    Column("advertise_address", String),
)

organization = Table(
    "organization",
    metadata,
    Column("id", String, primary_key=True),
    Column("name", String, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("audit_retention_ms", Span, nullable=False),
    UniqueConstraint("name"),
)

application = Table(
    "application",
    metadata,
    Column("id", String, primary_key=True),
    Column("organization_id", ForeignKey("organization.id"), nullable=False),
    Column("name", String, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("executor_timeout_ms", Span, nullable=False),
    Column("gc_time_threshold_ms", Span),
    Column("gc_rows_threshold", BigInteger),
    Column("global_timeout_ms", Span),
    Column("private_mode", Boolean, nullable=False),
    Column("language", String),
    Column("version_policy", String, nullable=False),
    Column("imports_allowed", Boolean, nullable=False, server_default=false()),
    UniqueConstraint("organization_id", "name"),
)

deleted_application = Table(
    "deleted_application",
    metadata,
    Column("organization_id", ForeignKey("organization.id"), primary_key=True),
    Column("name", String, primary_key=True),
    Column("deleted_at", Instant, nullable=False),
)

executor = Table(
    "executor",
    metadata,
    Column("application_id", String, primary_key=True),
    Column("executor_id", String, primary_key=True),
    Column("app_version", String, nullable=False),
    Column("hostname", String),
    Column("language", String),
    Column("dbos_version", String),
    Column("metadata", Json),
    Column("status", String, nullable=False),
    Column("status_since", Instant, nullable=False),
    Column("created_at", Instant, nullable=False),
    # Not indexed: it is rewritten all the time, and an index would make each of those
    # writes a new index entry instead of an update inside its page.
    Column("last_seen_at", Instant, nullable=False),
    Column("peer_address", String, nullable=False),
    Column("owner", String, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("connection_id", String, nullable=False),
    Column("grace_started_at", Instant),
    Column("grace_is_fault", Boolean, nullable=False),
    Column("dead_after", Instant),
    Column("unseen_starts", Integer, nullable=False),
    Column("last_error", String),
    ForeignKeyConstraint(["application_id"], ["application.id"], ondelete="CASCADE"),
    CheckConstraint(
        "status <> 'DISCONNECTED'"
        " OR (dead_after IS NOT NULL AND grace_started_at IS NOT NULL)",
        name="deadline",
    ),
    Index(
        "ix_executor_dead_after",
        "dead_after",
        sqlite_where=text("status = 'DISCONNECTED'"),
        postgresql_where=text("status = 'DISCONNECTED'"),
    ),
    # Half of each page stays free for the next versions of its rows.
    postgresql_with={"fillfactor": 50},
)

recovery = Table(
    "recovery",
    metadata,
    Column("id", String, primary_key=True),
    Column("application_id", String, nullable=False),
    Column("executor_id", String, nullable=False),
    Column("app_version", String, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("state", String, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("opened_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
    Column("next_attempt_at", Instant),
    Column("attempts", Integer, nullable=False),
    Column("failures", Integer, nullable=False),
    Column("claimed_by", String),
    Column("target", String),
    Column("ordered_at", Instant),
    Column("order_deadline", Instant),
    Column("pending_count", BigInteger),
    Column("pending_ids", Json, nullable=False),
    Column("tried_versions", Json, nullable=False),
    Column("suspect_ids", Json),
    Column("brake_level", Integer, nullable=False, server_default=text("0")),
    Column("reason", String),
    Column("is_verified", Boolean),
    Column("closed_at", Instant),
    Column("lost_at", Instant),
    Column("acknowledged_at", Instant),
    ForeignKeyConstraint(["application_id"], ["application.id"], ondelete="CASCADE"),
    CheckConstraint(
        "(closed_at IS NOT NULL) = (state IN ('DONE', 'RETURNED', 'ABANDONED'))",
        name="closed",
    ),
    # One open recovery an executor.
    Index(
        "uq_recovery_open",
        "application_id",
        "executor_id",
        unique=True,
        sqlite_where=text("closed_at IS NULL"),
        postgresql_where=text("closed_at IS NULL"),
    ),
    Index(
        "ix_recovery_due",
        "next_attempt_at",
        sqlite_where=text("closed_at IS NULL AND claimed_by IS NULL"),
        postgresql_where=text("closed_at IS NULL AND claimed_by IS NULL"),
    ),
    Index(
        "ix_recovery_claimed",
        "claimed_by",
        sqlite_where=text("claimed_by IS NOT NULL"),
        postgresql_where=text("claimed_by IS NOT NULL"),
    ),
    Index("ix_recovery_application", "application_id", "opened_at", "id"),
    Index("ix_recovery_opened", "opened_at", "id"),
    Index("ix_recovery_executor", "application_id", "executor_id"),
)

migration = Table(
    "migration",
    metadata,
    Column("id", String, primary_key=True),
    Column("recovery_id", String, nullable=False),
    Column("app_version", String, nullable=False),
    Column("method", String, nullable=False),
    Column("has_more", Boolean, nullable=False),
    Column("begun_at", Instant, nullable=False),
    Column("ended_at", Instant),
    ForeignKeyConstraint(["recovery_id"], ["recovery.id"], ondelete="CASCADE"),
    Index("ix_migration_recovery", "recovery_id", "begun_at", "id"),
    Index(
        "ix_migration_open",
        "begun_at",
        sqlite_where=text("ended_at IS NULL"),
        postgresql_where=text("ended_at IS NULL"),
    ),
)

migration_item = Table(
    "migration_item",
    metadata,
    Column("migration_id", String, primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("workflow_id", String, nullable=False),
    Column("name", String),
    Column("state", String, nullable=False),
    Column("start_step", BigInteger, nullable=False),
    Column("new_workflow_id", String),
    Column("queue_name", String),
    Column("queue_partition_key", String),
    Column("children", Json, nullable=False),
    Column("reason", String),
    ForeignKeyConstraint(["migration_id"], ["migration.id"], ondelete="CASCADE"),
)

tombstone = Table(
    "tombstone",
    metadata,
    Column("application_id", String, primary_key=True),
    Column("executor_id", String, primary_key=True),
    Column("app_version", String, primary_key=True),
    Column("recovery_id", String, nullable=False),
    Column("deleted_at", Instant, nullable=False),
    Column("reopened_at", Instant),
    ForeignKeyConstraint(["application_id"], ["application.id"], ondelete="CASCADE"),
    Index("ix_tombstone_deleted_at", "deleted_at"),
)

workflow_loss = Table(
    "workflow_loss",
    metadata,
    Column("application_id", String, primary_key=True),
    Column("workflow_id", String, primary_key=True),
    Column("name", String),
    Column("losses", Integer, nullable=False),
    Column("last_lost_at", Instant, nullable=False),
    Column("handed_on_at", Instant),
    ForeignKeyConstraint(["application_id"], ["application.id"], ondelete="CASCADE"),
    Index("ix_workflow_loss_last_lost_at", "last_lost_at"),
)

unknown_owner = Table(
    "unknown_owner",
    metadata,
    Column("application_id", String, primary_key=True),
    Column("executor_id", String, primary_key=True),
    Column("app_version", String, primary_key=True),
    Column("kind", String, nullable=False),
    Column("pending_count", BigInteger, nullable=False),
    Column("first_seen_at", Instant, nullable=False),
    Column("last_seen_at", Instant, nullable=False),
    ForeignKeyConstraint(["application_id"], ["application.id"], ondelete="CASCADE"),
)

census = Table(
    "census",
    metadata,
    Column("application_id", String, primary_key=True),
    Column("taken_at", Instant, nullable=False),
    Column("answered_by", String, nullable=False),
    Column("pending_count", BigInteger, nullable=False),
    Column("is_complete", Boolean, nullable=False),
    ForeignKeyConstraint(["application_id"], ["application.id"], ondelete="CASCADE"),
)

dispute = Table(
    "dispute",
    metadata,
    Column("application_id", String, primary_key=True),
    Column("since", Instant, nullable=False),
    Column("sides", Json, nullable=False),
    ForeignKeyConstraint(["application_id"], ["application.id"], ondelete="CASCADE"),
)

# How far the counts of an application have been collected.
collection = Table(
    "collection",
    metadata,
    Column("application_id", String, primary_key=True),
    Column("collected_to", Instant, nullable=False),
    ForeignKeyConstraint(["application_id"], ["application.id"], ondelete="CASCADE"),
)

metric = Table(
    "metric",
    metadata,
    Column("application_id", String, primary_key=True),
    Column("time_bucket", Instant, primary_key=True),
    Column("metric_type", String, primary_key=True),
    Column("metric_name", String, primary_key=True),
    Column("granularity_ms", Span, nullable=False),
    Column("value", BigInteger, nullable=False),
    ForeignKeyConstraint(["application_id"], ["application.id"], ondelete="CASCADE"),
)

api_key = Table(
    "api_key",
    metadata,
    Column("id", String, primary_key=True),
    Column("organization_id", ForeignKey("organization.id"), nullable=False),
    Column("name", String, nullable=False),
    Column("secret_hash", LargeBinary, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("last_used_at", Instant),
    Column("revoked_at", Instant),
    Column("permissions", Json, nullable=False),
    # Not inferred from missing rows in `api_key_application`: when the last application
    # of a key is deleted, the key covers none, not all.
    Column("all_applications", Boolean, nullable=False),
    UniqueConstraint("secret_hash"),
    Index(
        "uq_api_key_live_name",
        "organization_id",
        "name",
        unique=True,
        sqlite_where=text("revoked_at IS NULL"),
        postgresql_where=text("revoked_at IS NULL"),
    ),
    Index(
        "ix_api_key_revoked_at",
        "revoked_at",
        sqlite_where=text("revoked_at IS NOT NULL"),
        postgresql_where=text("revoked_at IS NOT NULL"),
    ),
)

api_key_application = Table(
    "api_key_application",
    metadata,
    Column("key_id", String, primary_key=True),
    Column("application_id", String, primary_key=True),
    ForeignKeyConstraint(["key_id"], ["api_key.id"], ondelete="CASCADE"),
    ForeignKeyConstraint(["application_id"], ["application.id"], ondelete="CASCADE"),
    Index("ix_api_key_application_application_id", "application_id"),
)

audit_entry = Table(
    "audit_entry",
    metadata,
    # Sorts by `emitted_at`: see `relay.store.audit_log`. Every index ends with it.
    Column("id", String, primary_key=True),
    Column("organization_id", ForeignKey("organization.id"), nullable=False),
    Column("emitted_at", Instant, nullable=False),
    Column("operation", String, nullable=False),
    Column("status", String, nullable=False),
    Column("subject_kind", String, nullable=False),
    Column("subject_id", String, nullable=False),
    Column("subject_display", String, nullable=False),
    Column("target_kind", String),
    Column("target_id", String),
    Column("source_ip", String, nullable=False),
    Column("details", Json, nullable=False),
    # No foreign key: the story outlives the application and its ledger.
    Column("recovery_id", String),
    Index("ix_audit_entry_newest", "organization_id", "id"),
    Index("ix_audit_entry_operation", "organization_id", "operation", "id"),
    Index("ix_audit_entry_target", "organization_id", "target_id", "id"),
    Index(
        "ix_audit_entry_recovery",
        "recovery_id",
        "id",
        sqlite_where=text("recovery_id IS NOT NULL"),
        postgresql_where=text("recovery_id IS NOT NULL"),
    ),
)
