"""
The calls of `dbosctl`, the official command line of Conductor, and how it judges them.

Its module cannot be installed as a tool of these tests, so this makes the calls that
are known of it: one a command, in its transport, with its exit codes. It is as strict:
an answer that is read has the one documented status and JSON of the documented shape.
How `dbosctl` prints is its own and not shown here, but for the ids, which are handed
from one command to the next.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any, Final

import httpx
from jsonschema import ValidationError

from tests.api.contract.judge import OPERATIONS, build_path, judge_shape

OK, FAILURE, USAGE, UNAUTHORISED, MISSING = range(5)
"""Exit codes."""

HALL = timezone(timedelta(hours=5, minutes=30))
"""Where the caller sits: times are sent with the offset of the machine."""

_USER_AGENT: Final = "Go-http-client/1.1"


@dataclass(frozen=True, slots=True)
class Command:
    """
    One command.

    Args:
        operation: what it calls.
        places: which names of the path its words are.
        reads: whether the answer is read; of other answers any 2xx will do.
        has_body: whether a body is sent, be it an empty one.
        several: what it calls instead for more than one id.
        id_of: which member of a row is its id.
        demands: the options without which it calls nobody.
        demands_any: whether it calls nobody without any option.
    """

    operation: str
    places: tuple[str, ...] = ()
    reads: bool = True
    has_body: bool = False
    several: str = ""
    id_of: str = ""
    demands: tuple[str, ...] = ()
    demands_any: bool = False


def _changes(operation: str, *places: str, **more: Any) -> Command:
    return Command(operation, places, reads=False, **more)


def _creates(operation: str, *places: str, **more: Any) -> Command:
    return Command(operation, places, has_body=True, **more)


COMMANDS: Final[Mapping[str, Command]] = {
    "app list": Command("listApps", id_of="name"),
    "app get": Command("getApp", ("appName",)),
    "app register": _changes("registerApp", "appName", has_body=True),
    "app update": _changes("updateApp", "appName", has_body=True, demands_any=True),
    "app delete": _changes("deleteApp", "appName"),
    "app versions": Command("listAppVersions", ("appName",), id_of="versionName"),
    "app set-version": _changes(
        "setLatestAppVersion", "appName", has_body=True, demands=("versionName",)
    ),
    "app executors": Command("listExecutors", ("appName",), id_of="executorId"),
    "app metrics": Command("listMetrics", ("appName",), id_of="metricName"),
    "workflow list": Command("searchWorkflows", has_body=True, id_of="workflowId"),
    "workflow get": Command("getWorkflow", ("workflowId",)),
    "workflow steps": Command("listWorkflowSteps", ("workflowId",)),
    "workflow events": Command("listWorkflowEvents", ("workflowId",)),
    "workflow cancel": _changes(
        "cancelWorkflow", "workflowId", has_body=True, several="bulkCancelWorkflows"
    ),
    "workflow resume": _changes(
        "resumeWorkflow", "workflowId", has_body=True, several="bulkResumeWorkflows"
    ),
    "workflow delete": _changes(
        "deleteWorkflow", "workflowId", several="bulkDeleteWorkflows"
    ),
    "workflow fork": _creates("forkWorkflow", "workflowId"),
    "queue list": Command("listQueues", id_of="name"),
    "queue get": Command("getQueue", ("queueName",)),
    "schedule list": Command("listSchedules", id_of="scheduleName"),
    "schedule get": Command("getSchedule", ("scheduleName",)),
    "schedule pause": _changes("pauseSchedule", "scheduleName"),
    "schedule resume": _changes("resumeSchedule", "scheduleName"),
    "schedule trigger": Command("triggerSchedule", ("scheduleName",)),
    "schedule backfill": Command(
        "backfillSchedule",
        ("scheduleName",),
        has_body=True,
        demands=("startTime", "endTime"),
    ),
    "api-key list": Command("listTokens", id_of="tokenName"),
    "api-key create": _creates("createToken", "tokenName"),
    "api-key delete": _changes("deleteToken", "tokenName"),
    "permission list": Command("listPermissions"),
    "whoami": Command("getCurrentUser"),
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a command ended."""

    code: int
    answer: Any = None
    """What was read, or the problem document."""
    ids: tuple[str, ...] = ()
    """What `-o ids` prints of a list."""
    complaint: str = ""
    asked: int = 1
    """How many calls were made."""


@dataclass(slots=True)
class Cli:
    """
    The command line with one profile.

    Args:
        token: a key; without one the profile is for servers that ask for none.
        organisation: as given with `--org`; `local` where nothing is asked for.
    """

    url: str
    application: str
    token: str = ""
    organisation: str = "local"
    used: set[str] = field(default_factory=set)
    """The commands that ended well."""

    async def run(
        self, command: str, *words: str, stdin: str = "", **options: Any
    ) -> Outcome:
        """
        Run one command.

        Args:
            words: names and ids; a `-` stands for those on `stdin`, one a line.
            options: members of the body, or of the query when there is no body.
        """
        known = COMMANDS.get(command)
        if known is None:
            return Outcome(USAGE, asked=0)
        if command == "whoami" and not self.token:
            self.used.add(command)
            return Outcome(OK, {"name": "local", "orgName": "local"}, asked=0)
        given = stdin.split("\n") if words[-1:] == ("-",) else [*words]
        given = [word.strip() for word in given if word.strip()]
        if not _is_complete(known, given, options):
            return Outcome(USAGE, asked=0)
        outcome = await self._call(known, given, options)
        if outcome.code == OK:
            self.used.add(command)
        return outcome

    async def succeed(self, command: str, *words: str, **options: Any) -> Any:
        """What a command reads, which ends well."""
        outcome = await self.run(command, *words, **options)
        assert outcome.code == OK, (command, outcome)
        return outcome.answer

    async def _call(
        self, command: Command, given: list[str], options: Mapping[str, Any]
    ) -> Outcome:
        operation, members = command.operation, dict(options)
        has_body = command.has_body
        if len(given) > len(command.places):
            operation, has_body = command.several, True
            members["workflowIds"] = given
        names = {"orgName": self.organisation, "appName": self.application}
        names |= dict(zip(command.places, given, strict=False))
        written = _written(members)
        headers = {"User-Agent": _USER_AGENT}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        try:
            async with httpx.AsyncClient(
                base_url=self.url, timeout=30, trust_env=False
            ) as http:
                del http.headers["Accept"]
                answer = await http.request(
                    OPERATIONS[operation][1],
                    build_path(operation, **names),
                    headers=headers,
                    json=written if has_body else None,
                    params=None if has_body else written,
                )
        except httpx.TransportError as error:
            return Outcome(FAILURE, complaint=repr(error))
        return _judged(command, operation, answer)


def in_the_hall(moment: datetime) -> str:
    """A moment as it is sent: with nanoseconds, and with the offset of the caller."""
    local = moment.astimezone(HALL)
    return f"{local:%Y-%m-%dT%H:%M:%S}.{local.microsecond:06}789+05:30"


def _is_complete(
    command: Command, given: list[str], options: Mapping[str, Any]
) -> bool:
    few, many = len(command.places), command.several
    return (
        (len(given) >= few if many else len(given) == few)
        and all(name in options for name in command.demands)
        and (bool(options) or not command.demands_any)
    )


def _written(members: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: in_the_hall(value) if isinstance(value, datetime) else value
        for name, value in members.items()
    }


def _judged(command: Command, operation: str, answer: httpx.Response) -> Outcome:
    if answer.status_code in (401, 404):
        code = UNAUTHORISED if answer.status_code == 401 else MISSING
        return Outcome(code, answer.json(), complaint=answer.text)
    if not command.reads:
        code = OK if answer.is_success else FAILURE
        return Outcome(code, complaint=answer.text)
    responses = OPERATIONS[operation][2]["responses"]
    [documented] = [status for status in responses if status.startswith("2")]
    is_json = "json" in answer.headers.get("Content-Type", "")
    if str(answer.status_code) != documented or not is_json:
        return Outcome(FAILURE, complaint=answer.text)
    body = answer.json()
    try:
        judge_shape(
            responses[documented]["content"]["application/json"]["schema"], body
        )
    except ValidationError as error:
        return Outcome(FAILURE, complaint=error.message)
    if body is None:
        return Outcome(FAILURE, complaint="null for a list")
    ids = tuple(str(row[command.id_of]) for row in body) if command.id_of else ()
    return Outcome(OK, body, ids)
