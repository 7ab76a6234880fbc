"""What this room asks of rooms above it."""

from typing import Final, Protocol

from relay.ids import ApplicationId, ExecutorRef


class Agreement(Protocol):
    """Whether the executors of an application are known to read one database."""

    def is_disputed(self, application_id: ApplicationId) -> bool:
        """
        Whether two of its executors read different databases, as far as is known.

        Then "nothing is pending" proves nothing, and no record is deleted on it.
        """
        ...

    def is_compared(self, ref: ExecutorRef) -> bool:
        """
        Whether that executor, on this socket, was found to read what the others read.

        Its word is worth more than that of one that has only just connected.
        """
        ...

    def may_agree(self, first: ExecutorRef, second: ExecutorRef) -> bool:
        """
        Whether two executors of an application may read the same database.

        Work that one of them sees can be taken over by the other only then.
        """
        ...


class Believing:
    """An `Agreement` where nobody compares: every executor is believed."""

    def is_disputed(self, application_id: ApplicationId) -> bool:
        del application_id
        return False

    def is_compared(self, ref: ExecutorRef) -> bool:
        del ref
        return True

    def may_agree(self, first: ExecutorRef, second: ExecutorRef) -> bool:
        del first, second
        return True


BELIEVING: Final = Believing()
