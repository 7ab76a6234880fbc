"""What has to be thrown away now and then."""

from datetime import timedelta

import structlog

from relay.clock import Clock
from relay.collection import KEPT_FOR
from relay.errors import StoreUnavailableError
from relay.recovery.brake import COUNTED_FOR
from relay.store import Store
from relay.store.audit_log import PURGE_BATCH

logger = structlog.get_logger(__name__)

PURGE_INTERVAL = timedelta(days=1)
RETRY_INTERVAL = timedelta(minutes=10)


async def purge_daily(store: Store, clock: Clock) -> None:
    """Delete what is too old, at once and every day."""
    while True:
        try:
            await purge_audit(store)
            await purge_recoveries(store)
            await purge_losses(store)
            await purge_metrics(store)
        except StoreUnavailableError as error:
            logger.warning("old_rows_not_purged", reason=error.reason)
            await clock.sleep(RETRY_INTERVAL)
        else:
            await clock.sleep(PURGE_INTERVAL)


async def purge_audit(store: Store) -> int:
    """
    Delete entries older than their organization keeps them; how many there were.

    Raises:
        StoreUnavailableError: the database does not answer.
    """
    purged = 0
    async with store.read() as work:
        organizations = await work.organizations.list_all()
    for organization in organizations:
        batch = PURGE_BATCH
        while batch == PURGE_BATCH:
            async with store.write() as work:
                batch = await work.audit.purge(
                    organization.name, work.now - organization.audit_retention
                )
            purged += batch
    if purged:
        logger.info("audit_purged", entries=purged)
    return purged


async def purge_recoveries(store: Store) -> int:
    """
    Delete closed recoveries older than their organization keeps audit entries.

    Returns:
        How many there were.

    Raises:
        StoreUnavailableError: the database does not answer.
    """
    purged = 0
    async with store.read() as work:
        organizations = await work.organizations.list_all()
    for organization in organizations:
        batch = PURGE_BATCH
        while batch == PURGE_BATCH:
            async with store.write() as work:
                batch = await work.old_recoveries.purge(
                    organization.name,
                    work.now - organization.audit_retention,
                    limit=PURGE_BATCH,
                )
            purged += batch
    if purged:
        logger.info("recoveries_purged", recoveries=purged)
    return purged


async def purge_losses(store: Store) -> int:
    """
    Delete the counters of the crash brake that say nothing any more; how many.

    Raises:
        StoreUnavailableError: the database does not answer.
    """
    purged = 0
    batch = PURGE_BATCH
    while batch == PURGE_BATCH:
        async with store.write() as work:
            batch = await work.workflow_losses.purge(
                work.now - COUNTED_FOR, limit=PURGE_BATCH
            )
        purged += batch
    if purged:
        logger.info("workflow_losses_purged", counters=purged)
    return purged


async def purge_metrics(store: Store) -> int:
    """
    Delete counts of workflows and steps that are too old; how many there were.

    Raises:
        StoreUnavailableError: the database does not answer.
    """
    purged = 0
    async with store.read() as work:
        applications = await work.applications.list_all()
    for application in applications:
        batch = PURGE_BATCH
        while batch >= PURGE_BATCH:
            async with store.write() as work:
                # Or a deletion of the application and this wait for each other.
                await work.applications.lock_settings({application.ref.id})
                batch = await work.metrics.purge(
                    application.ref.id, work.now - KEPT_FOR, limit=PURGE_BATCH
                )
            purged += batch
    if purged:
        logger.info("metrics_purged", rows=purged)
    return purged
