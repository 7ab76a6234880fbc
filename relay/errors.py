"""
Every error that crosses a room's border, in one tree.

An error holds facts as attributes and builds its own message; it knows no HTTP
(`relay_api.problems` is the only translation, and a test walks this tree against it).

::

    RelayError
    ├── SettingsError               the process cannot start like this
    ├── StoreError
    │   ├── StoreUnavailableError   the database does not answer; may be tried again
    │   ├── SchemaTooNewError       this binary is older than the schema allows
    │   └── StoreLockedError        another server holds this store
    ├── NotFoundError               organization, application, key, recovery, executor
    ├── ConflictError               the name is taken, the state forbids it
    ├── InvalidInputError           a value that no rule accepts
    ├── AuthenticationError         nobody we know
    ├── PermissionDeniedError       somebody we know, who may not
    └── DispatchError               an executor could not be asked
        ├── NoExecutorError         none is connected
        ├── ConnectionLostError     the socket ended; says whether the frame had left
        ├── ExecutorBusyError       too many requests wait for it already
        ├── ReplyTimeoutError       no answer in time
        ├── ReplyTooLargeError      the answer broke the message limit
        ├── ReplyInvalidError       an answer that is no answer to the question
        ├── ExecutorFailedError     the executor answered with an error message
        ├── UnknownMessageError     the SDK does not know the message
        └── RequestWithdrawnError   no longer wanted at the moment of writing
"""

from datetime import timedelta

from relay.ids import AppName, AppVersion, ExecutorId


class RelayError(Exception):
    """The root: catch it only at a fence."""


class SettingsError(RelayError):
    """The settings contradict each other or forbid to start."""


class StoreError(RelayError):
    """The store could not do what was asked."""


class StoreUnavailableError(StoreError):
    """The database does not answer; nothing was decided, try again later."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"the database does not answer: {reason}")


class SchemaTooNewError(StoreError):
    """The schema was migrated by a newer Relay that excludes this one."""

    def __init__(self, *, required: str, running: str) -> None:
        self.required = required
        self.running = running
        super().__init__(
            f"the database needs Relay {required} or newer, this is {running}"
        )


class StoreLockedError(StoreError):
    """
    Another Relay server uses this store, and one at a time may.

    `path` is the SQLite file, or says that it is the PostgreSQL database.
    """

    def __init__(self, path: str, *, process: str | None = None) -> None:
        self.path = path
        self.process = process
        holder = f" (process {process})" if process else ""
        super().__init__(f"another Relay server{holder} uses {path}; stop it first")


class NotFoundError(RelayError):
    """The named thing does not exist (or may not be known to the asker)."""

    def __init__(self, kind: str, name: str) -> None:
        self.kind = kind
        self.name = name
        super().__init__(f"{kind} {name!r} does not exist")


class ConflictError(RelayError):
    """The request contradicts what is; the message says what is."""


class InvalidInputError(RelayError):
    """
    A value breaks a rule.

    `location` is its dotted path, such as `body.limit`, or its name alone where whoever
    asks knows in which part of a request it stands; empty for the request as a whole.
    """

    def __init__(self, location: str, message: str, value: object = None) -> None:
        self.location = location
        self.message = message
        self.value = value
        super().__init__(f"{location}: {message}")


class MalformedInputError(RelayError):
    """The request is not understood at all (HTTP would say 400, not 422)."""


class AuthenticationError(RelayError):
    """The credential is missing, unknown or revoked."""


class PermissionDeniedError(RelayError):
    """The principal is known and may not do this."""


class DispatchError(RelayError):
    """An executor could not be asked, or did not answer usefully."""


class NoExecutorError(DispatchError):
    """No healthy executor of the application (and version) is connected."""

    def __init__(
        self, application: AppName, app_version: AppVersion | None = None
    ) -> None:
        self.application = application
        self.app_version = app_version
        version = f" with its latest version {app_version!r}" if app_version else ""
        super().__init__(
            f"no healthy executor of {application!r}{version} is connected"
        )


class ConnectionLostError(DispatchError):
    """
    The socket ended before the reply came.

    `delivered` is False only when the frame certainly never left this process: then
    any request may be repeated elsewhere.
    """

    def __init__(self, executor: ExecutorId, *, delivered: bool) -> None:
        self.executor = executor
        self.delivered = delivered
        what = "before it answered" if delivered else "before it was asked"
        super().__init__(f"executor {executor} disconnected {what}")


class ExecutorBusyError(DispatchError):
    """So many requests wait for the executor that this one was not queued."""

    def __init__(self, executor: ExecutorId, waiting: int) -> None:
        self.executor = executor
        self.waiting = waiting
        super().__init__(f"{waiting} requests already wait for executor {executor}")


class ReplyTimeoutError(DispatchError):
    """
    No answer in time; `delivered` as in `ConnectionLostError`.

    Of several executors that were asked in vain, `executor` is the last one, and
    `timeout` the time that all of them took together.
    """

    def __init__(
        self,
        executor: ExecutorId,
        timeout: timedelta,
        *,
        delivered: bool,
        asked: int = 1,
    ) -> None:
        self.executor = executor
        self.timeout = timeout
        self.delivered = delivered
        self.asked = asked
        # What was left of the whole time is a little less than a round number.
        span = f"{round(timeout.total_seconds(), 2):g} s"
        super().__init__(
            f"executor {executor} did not answer within {span}"
            if asked == 1
            else f"{asked} executors did not answer within {span}; the last was"
            f" {executor}"
        )


class ReplyTooLargeError(DispatchError):
    """The reply broke the message limit, and the socket was closed for it."""

    def __init__(self, executor: ExecutorId, limit_bytes: int) -> None:
        self.executor = executor
        self.limit_bytes = limit_bytes
        super().__init__(
            f"the reply of executor {executor} is larger than {limit_bytes} bytes"
            " (setting RELAY_MAX_MESSAGE_BYTES)"
        )


class ReplyInvalidError(DispatchError):
    """The executor sent something that does not answer the question."""

    def __init__(self, executor: ExecutorId, reason: str) -> None:
        self.executor = executor
        self.reason = reason
        super().__init__(f"executor {executor} answered unusably: {reason}")


class ExecutorFailedError(DispatchError):
    """
    The executor answered with an error message.

    `message` may hold a traceback with paths and row values: it belongs into the log
    at debug, never to a caller. `summary` is its last line.
    """

    def __init__(self, executor: ExecutorId, message: str) -> None:
        self.executor = executor
        self.message = message
        lines = [line.strip() for line in message.splitlines() if line.strip()]
        self.summary = (lines[-1] if lines else "no reason given")[:500]
        super().__init__(f"executor {executor} failed: {self.summary}")


class UnknownMessageError(ExecutorFailedError):
    """The SDK of this executor does not know the message type."""


class RequestWithdrawnError(DispatchError):
    """The asker no longer wanted it when it was about to be written to the socket."""

    def __init__(self, executor: ExecutorId) -> None:
        self.executor = executor
        super().__init__(f"the request to executor {executor} was withdrawn")
