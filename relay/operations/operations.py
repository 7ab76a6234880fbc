"""One door to everything that only executors can answer."""

from relay.audit import AuditWriter
from relay.clock import Clock
from relay.dispatch import Dispatcher
from relay.operations.asking import Executors
from relay.operations.changes import WorkflowChanges
from relay.operations.clerk import Clerk
from relay.operations.queues import Queues
from relay.operations.schedules import Schedules
from relay.operations.versions import Versions
from relay.operations.workflows import Workflows
from relay.registry.lookup import ApplicationLookup
from relay.settings import RelaySettings
from relay.store import Store


class Operations:
    """
    The use-cases by resource.

    `workflows` reads workflows, `changes` changes them; `queues`, `schedules` and
    `versions` do both for theirs.
    """

    def __init__(
        self,
        *,
        store: Store,
        audit: AuditWriter,
        dispatcher: Dispatcher,
        settings: RelaySettings,
        clock: Clock,
        applications: ApplicationLookup,
    ) -> None:
        clerk = Clerk(store, audit, applications)
        executors = Executors(dispatcher, settings, clock, store)
        slow = settings.slow_request_timeout
        self.workflows = Workflows(clerk=clerk, executors=executors, slow=slow)
        self.changes = WorkflowChanges(clerk=clerk, executors=executors, slow=slow)
        self.queues = Queues(clerk=clerk, executors=executors)
        self.schedules = Schedules(clerk=clerk, executors=executors)
        self.versions = Versions(clerk=clerk, executors=executors)
