"""Writing the rows of a batch; each row count is read."""

from collections.abc import Mapping, Sequence

from relay.errors import ConflictError
from relay.hub.events import Arrival
from relay.ids import ApplicationId
from relay.liveness.effects import OpenRecovery
from relay.monitor.draft import Draft
from relay.monitor.news import News
from relay.records import ApplicationRecord, ExecutorRecord, RecoveryRecord
from relay.store import UnitOfWork
from relay.store.executors import Change


async def lock_applications(
    work: UnitOfWork, news: Sequence[News]
) -> dict[ApplicationId, ApplicationRecord]:
    """Hold the settings of those that exist, to change them if a language is new."""
    said = {
        (each.ref.application.id, each.info.language)
        for each in news
        if isinstance(each, Arrival) and each.info.language
    }
    known: Mapping[ApplicationId, str | None] = {}
    if said:
        known = await work.applications.find_languages({id_ for id_, _ in said})
    return await work.applications.lock_settings(
        {each.ref.application.id for each in news},
        to_change=any(
            id_ in known and known[id_] != language for id_, language in said
        ),
    )


async def write_executors(work: UnitOfWork, drafts: Sequence[Draft]) -> None:
    """
    Write what changed of the executors, which are locked.

    Raises:
        ConflictError: a row is not as it was locked.
    """
    new: list[ExecutorRecord] = []
    changed: list[Change] = []
    for draft in drafts:
        before, after = draft.before, draft.after
        if after is None or after is before:
            continue
        if before is None:
            new.append(after)
        else:
            changed.append(Change(after, before.epoch, before.status))
    written = await work.executors.insert_many(new)
    written |= await work.executors.save_many(changed)
    if len(written) != len(new) + len(changed):
        raise ConflictError("rows of executors changed while they were locked")


async def write_recoveries(work: UnitOfWork, drafts: Sequence[Draft]) -> None:
    """
    Open and end recoveries; where the engine was faster, decide again from its row.

    Raises:
        ConflictError: the ledger has a row that cannot be there.
    """
    opened: list[RecoveryRecord] = []
    for draft in drafts:
        if draft.ledger is None:
            continue
        if draft.recovery is not None:
            await _change_recovery(work, draft, draft.recovery)
        elif wanted := draft.recovery_after(None):
            opened.append(wanted)
    if len(await work.recoveries.insert_many(opened)) != len(opened):
        raise ConflictError("recoveries were opened for executors that were alive")


async def write_languages(
    work: UnitOfWork,
    drafts: Sequence[Draft],
    applications: Mapping[ApplicationId, ApplicationRecord],
) -> None:
    """
    Give each application the language of whoever connected last and said it.

    `lock_applications` has locked them for that.
    """
    languages = {
        draft.ref.application.id: draft.after.language
        for draft in drafts
        if draft.has_connected and draft.after and draft.after.language
    }
    for application_id, language in languages.items():
        if language == applications[application_id].language:
            continue
        if not await work.applications.set_language(application_id, language):
            raise AssertionError("a locked row of an application has gone")


async def wake_recoveries(work: UnitOfWork, drafts: Sequence[Draft]) -> int:
    """Make due what waited for one of those that connected; how many there were."""
    connected = {
        (draft.ref.application.id, draft.after.app_version)
        for draft in drafts
        if draft.has_connected and draft.after
    }
    woken = 0
    for application_id, app_version in sorted(connected):
        woken += await work.recoveries.wake(application_id, app_version)
    return woken


async def _change_recovery(
    work: UnitOfWork, draft: Draft, found: RecoveryRecord | None
) -> None:
    while found is not None:
        wanted = draft.recovery_after(found)
        if wanted is None or await work.recoveries.save(
            wanted, expected_revision=found.revision
        ):
            return
        # The engine was faster: decide again from what it wrote. Each turn of this
        # loop is a step that somebody else has made, so it ends.
        found = await work.recoveries.find_open(draft.ref.key)
    if isinstance(draft.ledger, OpenRecovery):
        raise ConflictError(f"the open recovery of {draft.ref} has just ended")
