"""Rows of applications, and the names of deleted ones."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, delete, select, update

from relay.db import Transaction
from relay.errors import ConflictError, NotFoundError
from relay.ids import ApplicationId, ApplicationRef, AppName, OrgName
from relay.records import ApplicationRecord, VersionPolicy
from relay.store.tables import (
    application,
    deleted_application,
    executor,
    organization,
)


class ApplicationRepository:
    """Registered applications and their settings."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    async def find(
        self, organization_name: OrgName, name: AppName
    ) -> ApplicationRecord | None:
        return await self._find(
            organization.c.name == organization_name, application.c.name == name
        )

    async def lock(
        self, organization_name: OrgName, name: AppName
    ) -> ApplicationRecord | None:
        """As `find`, and nobody else changes the application until the end."""
        row = (
            await self._transaction.execute(
                _select_applications()
                .where(
                    organization.c.name == organization_name,
                    application.c.name == name,
                )
                .with_for_update(of=application)
            )
        ).one_or_none()
        return None if row is None else _to_record(row)

    async def find_by_id(
        self, application_id: ApplicationId
    ) -> ApplicationRecord | None:
        return await self._find(application.c.id == application_id)

    async def find_languages(
        self, application_ids: Collection[ApplicationId]
    ) -> dict[ApplicationId, str | None]:
        """Id to language, of the applications that exist; nothing is locked."""
        rows = await self._transaction.execute(
            select(application.c.id, application.c.language).where(
                application.c.id.in_(application_ids)
            )
        )
        return {row.id: row.language for row in rows}

    async def lock_settings(
        self, application_ids: Collection[ApplicationId], *, to_change: bool = False
    ) -> dict[ApplicationId, ApplicationRecord]:
        """
        Read the applications that exist and hold their settings until the end.

        Whoever derives a deadline from the timeout needs this: a change of the setting
        comes wholly before, or waits and then moves the deadline too. Take it before
        any row of an executor.

        Args:
            to_change: nobody else holds them beside this transaction, which is going to
                write them. Say so now: two that share them and then wait for each other
                are a deadlock.
        """
        rows = await self._transaction.execute(
            _select_applications()
            .where(application.c.id.in_(application_ids))
            .order_by(application.c.id)
            .with_for_update(read=not to_change, key_share=to_change, of=application)
        )
        records = [_to_record(row) for row in rows]
        return {record.ref.id: record for record in records}

    async def set_language(
        self, application_id: ApplicationId, language: str | None
    ) -> bool:
        """Write the language alone; whether the application exists."""
        result = await self._transaction.execute(
            update(application)
            .where(application.c.id == application_id)
            .values(language=language)
        )
        return result.rowcount == 1

    async def list_by_organization(
        self, organization_name: OrgName
    ) -> Sequence[ApplicationRecord]:
        """The applications of one organization, by name."""
        return await self._list(organization.c.name == organization_name)

    async def list_all(self) -> Sequence[ApplicationRecord]:
        """Every application, by organization and name."""
        return await self._list()

    async def list_refs(self, organization_name: OrgName) -> Sequence[ApplicationRef]:
        """The applications of one organization without their settings."""
        rows = await self._transaction.execute(
            select(application.c.id, application.c.name)
            .join(organization)
            .where(organization.c.name == organization_name)
        )
        return [ApplicationRef(row.id, organization_name, row.name) for row in rows]

    async def list_deleted(self, organization_name: OrgName) -> Sequence[AppName]:
        """The names that were deleted and not registered again."""
        names = await self._transaction.execute(
            select(deleted_application.c.name)
            .join(organization)
            .where(organization.c.name == organization_name)
        )
        return list(names.scalars())

    async def insert(self, record: ApplicationRecord) -> None:
        """
        Register an application; a deleted one of this name is no longer remembered.

        Raises:
            NotFoundError: there is no such organization.
            ConflictError: the name is taken.
        """
        organization_id = await self._organization_id(record.ref.organization)
        is_new = await self._transaction.insert_new(
            application,
            {
                "id": record.ref.id,
                "organization_id": organization_id,
                "name": record.ref.name,
                "created_at": record.created_at,
                **_settings_of(record),
            },
        )
        if not is_new:
            raise ConflictError(f"application {record.ref.name!r} already exists")
        await self._transaction.execute(
            delete(deleted_application).where(
                deleted_application.c.organization_id == organization_id,
                deleted_application.c.name == record.ref.name,
            )
        )

    async def update(self, record: ApplicationRecord) -> bool:
        """Write every setting of the record; whether the application exists."""
        result = await self._transaction.execute(
            update(application)
            .where(application.c.id == record.ref.id)
            .values(_settings_of(record))
        )
        return result.rowcount == 1

    async def delete(self, application_id: ApplicationId) -> bool:
        """
        Delete the application and all that hangs on it; whether it existed.

        Its executors, ledger and tombstones go, and no key covers it any more. The
        audit log stays, and the name is remembered until it is registered again.
        """
        await self._transaction.lock_rows(
            application, application.c.id == application_id
        )
        await self._transaction.lock_rows(
            executor, executor.c.application_id == application_id
        )
        row = (
            await self._transaction.execute(
                delete(application)
                .where(application.c.id == application_id)
                .returning(application.c.organization_id, application.c.name)
            )
        ).one_or_none()
        if row is None:
            return False
        await self._transaction.insert_new(
            deleted_application,
            {
                "organization_id": row.organization_id,
                "name": row.name,
                "deleted_at": self._transaction.now,
            },
        )
        return True

    async def is_deleted(self, organization_name: OrgName, name: AppName) -> bool:
        """Whether an application of this name was deleted and not registered again."""
        result = await self._transaction.execute(
            select(deleted_application.c.name)
            .join(organization)
            .where(
                organization.c.name == organization_name,
                deleted_application.c.name == name,
            )
        )
        return result.one_or_none() is not None

    async def _find(self, *criteria: ColumnElement[bool]) -> ApplicationRecord | None:
        row = (
            await self._transaction.execute(_select_applications().where(*criteria))
        ).one_or_none()
        return None if row is None else _to_record(row)

    async def _list(
        self, *criteria: ColumnElement[bool]
    ) -> Sequence[ApplicationRecord]:
        rows = await self._transaction.execute(
            _select_applications()
            .where(*criteria)
            .order_by(organization.c.name, application.c.name)
        )
        return [_to_record(row) for row in rows]

    async def _organization_id(self, name: OrgName) -> str:
        found: str | None = (
            await self._transaction.execute(
                select(organization.c.id).where(organization.c.name == name)
            )
        ).scalar_one_or_none()
        if found is None:
            raise NotFoundError("organization", name)
        return found


def _select_applications() -> Select[Any]:
    return select(application, organization.c.name.label("organization_name")).join(
        organization
    )


def _settings_of(record: ApplicationRecord) -> Mapping[str, Any]:
    return {
        "executor_timeout_ms": record.executor_timeout,
        "gc_time_threshold_ms": record.gc_time_threshold,
        "gc_rows_threshold": record.gc_rows_threshold,
        "global_timeout_ms": record.global_timeout,
        "private_mode": record.private_mode,
        "language": record.language,
        "version_policy": record.version_policy.value,
        "imports_allowed": record.imports_allowed,
    }


def _to_record(row: Row[Any]) -> ApplicationRecord:
    return ApplicationRecord(
        ref=ApplicationRef(
            id=row.id, organization=row.organization_name, name=row.name
        ),
        created_at=row.created_at,
        executor_timeout=row.executor_timeout_ms,
        gc_time_threshold=row.gc_time_threshold_ms,
        gc_rows_threshold=row.gc_rows_threshold,
        global_timeout=row.global_timeout_ms,
        private_mode=row.private_mode,
        language=row.language,
        version_policy=VersionPolicy(row.version_policy),
        imports_allowed=row.imports_allowed,
    )
