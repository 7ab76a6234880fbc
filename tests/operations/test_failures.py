"""What the texts of four SDKs mean to a caller."""

import pytest

from relay.errors import (
    ConflictError,
    ExecutorFailedError,
    InvalidInputError,
    NotFoundError,
    PermissionDeniedError,
    RelayError,
    UnknownMessageError,
)
from relay.ids import ExecutorId
from relay.operations.failures import find_reason, translate

EXECUTOR = ExecutorId("executor-1")


def failed(message: str) -> ExecutorFailedError:
    return ExecutorFailedError(EXECUTOR, message)


def traceback(doing: str, *lines: str) -> str:
    """As Python writes it, with the frames of its own files."""
    return "\n".join(
        (
            f"Exception encountered when {doing}: Traceback (most recent call last):",
            '  File "/app/conductor.py", line 375, in run',
            "    answer = work()",
            "             ^^^^^^",
            '  File "/app/system_database.py", line 1279, in work',
            "    raise problem",
            *lines,
            "",
        )
    )


def means(message: str, kind: str = "workflow", name: str = "w-1") -> RelayError:
    return translate(failed(message), kind, name)


@pytest.mark.parametrize(
    "message",
    [
        # Python: resume, fork, export.
        traceback(
            "resuming workflow w-1",
            "dbos._error.DBOSNonExistentWorkflowError: DBOS Error 5:"
            " Non-existent target workflow ID: w-1",
        ),
        traceback(
            "exporting workflow w-1",
            "dbos._error.DBOSNonExistentWorkflowError: DBOS Error 5:"
            " Non-existent export workflow ID: w-1",
        ),
        # Python in metadata-only mode names the class and nothing else.
        "DBOSNonExistentWorkflowError (details withheld)",
        # TypeScript: fork, resume, export.
        "Exception encountered when forking workflow w-1 to new workflow null on step"
        " 1, app version null: Workflow w-1 does not exist",
        "Exception encountered when exporting workflow w-1: Workflow w-1 does not"
        " exist",
        # Go.
        "failed to fork workflow: workflow w-1 does not exist",
        "no such workflow: w-1",
    ],
)
def test_missing_workflow_is_not_found(message: str) -> None:
    """And it is named as the caller named it."""
    error = means(message)

    assert isinstance(error, NotFoundError)
    assert (error.kind, error.name) == ("workflow", "w-1")


@pytest.mark.parametrize(
    "message",
    [
        traceback(
            "triggering schedule 'nightly'",
            "dbos._error.DBOSException: DBOS Error: Schedule 'nightly' does not exist",
        ),
        "Exception encountered when triggering schedule 'nightly':"
        ' Schedule "nightly" not found',
    ],
)
def test_missing_schedule_is_not_found(message: str) -> None:
    """Python and TypeScript say it differently."""
    error = means(message, "schedule", "nightly")

    assert isinstance(error, NotFoundError)
    assert (error.kind, error.name) == ("schedule", "nightly")


@pytest.mark.parametrize(
    "message",
    [
        # The database has no schema, or an old one.
        'relation "dbos.workflow_status" does not exist',
        "Exception encountered when forking workflow w-1 to new workflow null on step"
        ' 1, app version null: relation "dbos.workflow_status" does not exist',
        'column "attributes" does not exist',
        "no such table: workflow_status",
        traceback(
            "listing workflows",
            "sqlalchemy.exc.ProgrammingError: (psycopg.errors.UndefinedTable)"
            ' relation "dbos.workflow_status" does not exist',
            "[SQL: SELECT 1 FROM dbos.workflow_status]",
            "(Background on this error at: somewhere)",
        ),
        "canceling statement due to statement timeout",
        "connection refused",
        "",
    ],
)
def test_trouble_of_the_executor_stays_its_own(message: str) -> None:
    """Nobody is told that a workflow does not exist because a table does not."""
    assert type(means(message)) is ExecutorFailedError


def test_error_that_means_nothing_is_handed_back() -> None:
    """With everything that it knows."""
    error = failed("out of memory")

    assert translate(error, "workflow", "w-1") is error


@pytest.mark.parametrize(
    "message",
    [
        # TypeScript: import of what is there.
        "Exception encountered when importing workflow: duplicate key value violates"
        ' unique constraint "workflow_status_pkey"',
        # Python, on both of its databases; the reason stands above the statement.
        traceback(
            "importing workflow",
            "sqlalchemy.exc.IntegrityError: (psycopg.errors.UniqueViolation) duplicate"
            ' key value violates unique constraint "workflow_status_pkey"',
            "DETAIL:  Key (workflow_uuid)=(w-1) already exists.",
            "[SQL: INSERT INTO dbos.workflow_status VALUES (%(id)s)]",
            "[parameters: {'id': 'w-1', 'inputs': 'secret'}]",
            "(Background on this error at: somewhere)",
        ),
        traceback(
            "forking workflow w-1",
            "sqlalchemy.exc.IntegrityError: (sqlite3.IntegrityError) UNIQUE constraint"
            " failed: workflow_status.workflow_uuid",
            "[SQL: INSERT INTO workflow_status VALUES (?)]",
        ),
        # Java's driver indents what it adds.
        "ERROR: duplicate key value violates unique constraint"
        ' "workflow_status_pkey"\n  Detail: Key (workflow_uuid)=(w-1) already exists.',
        "failed to import: workflow w-1 already exists",
        traceback(
            "forking workflow w-1",
            "dbos._error.DBOSWorkflowConflictIDError: DBOS Error 1:"
            " Conflicting workflow ID w-1",
        ),
    ],
)
def test_id_that_is_taken_is_a_conflict(message: str) -> None:
    """And no row value leaves with it."""
    error = means(message)

    assert isinstance(error, ConflictError)
    assert "secret" not in str(error)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (
            traceback(
                "bulk forking workflows",
                "ValueError: Exactly one of from_last_failure or from_step must be"
                " specified",
            ),
            "Exactly one of from_last_failure or from_step must be specified",
        ),
        (
            traceback(
                "getting workflow aggregates",
                "ValueError: At least one group_by flag must be set to True",
            ),
            "At least one group_by flag must be set to True",
        ),
        (
            "Exception encountered when getting step aggregates: At least one group_by"
            " flag must be set to True",
            "Exception encountered when getting step aggregates: At least one group_by"
            " flag must be set to True",
        ),
        ("rowsThreshold must be > 0", "rowsThreshold must be > 0"),
        (
            "No enum constant dev.dbos.WorkflowState.FINISHED",
            "No enum constant dev.dbos.WorkflowState.FINISHED",
        ),
        (
            traceback("listing workflows", "ValueError: Invalid isoformat string: 'x'"),
            "Invalid isoformat string: 'x'",
        ),
        (
            traceback(
                "importing workflow", "gzip.BadGzipFile: Not a gzipped file (b'AB')"
            ),
            "Not a gzipped file (b'AB')",
        ),
        (
            "Exception encountered when importing workflow: incorrect header check",
            "Exception encountered when importing workflow: incorrect header check",
        ),
        # Go and Java fork nothing when one of the workflows has no steps.
        (
            "failed to fork workflows from failure: workflow other has no steps",
            "failed to fork workflows from failure: workflow other has no steps",
        ),
        (
            traceback(
                "forking workflows from failure",
                "Exception: Workflow app:1 has no step named 'pack'",
            ),
            "Workflow app:1 has no step named 'pack'",
        ),
    ],
)
def test_what_the_sdk_will_not_read_is_invalid_input(message: str, reason: str) -> None:
    """In one line, without the name of an exception or a file."""
    error = means(message)

    assert isinstance(error, InvalidInputError)
    assert (error.location, error.message) == ("", reason)


def test_what_metadata_only_mode_refuses_is_forbidden() -> None:
    """The application decided so, and no other executor would say otherwise."""
    error = means("get_workflow_events is not allowed in conductor metadata-only mode")

    assert isinstance(error, PermissionDeniedError)


def test_unknown_message_stays_what_it_is() -> None:
    """Whatever is in its text."""
    error = UnknownMessageError(EXECUTOR, "workflow does not exist")

    assert translate(error, "workflow", "w-1") is error


@pytest.mark.parametrize(
    "name",
    ["x: workflow y does not exist", "exactly one of", "a duplicate key value"],
)
def test_names_do_not_decide(name: str) -> None:
    """A caller may call its workflow what it likes."""
    error = means(
        f"Exception encountered when forking workflow {name}: gone", name=name
    )

    assert type(error) is ExecutorFailedError


def test_only_the_beginning_of_an_endless_line_decides() -> None:
    """Every socket waits for the search, and its time grows with the square."""
    nearly = ": step " * 500
    searched, endless = means(f"{nearly}not found"), means(f"{nearly * 9}not found")

    assert isinstance(searched, NotFoundError)
    assert type(endless) is ExecutorFailedError


def test_an_endless_name_does_not_hide_what_is_said() -> None:
    """It is taken out before anything is cut."""
    error = means("Workflow " + "n1" * 9000 + " does not exist", name="n1" * 9000)

    assert isinstance(error, NotFoundError)


@pytest.mark.parametrize("name", ["exist", "not", "Workflow"])
def test_names_do_not_hide_what_is_said(name: str) -> None:
    """A word of the sentence may be a name."""
    assert isinstance(
        means(f"Workflow {name} does not exist", name=name), NotFoundError
    )


def test_database_error_of_python_is_told_by_its_reason() -> None:
    """Its last line says only where to read about errors."""
    error = means(
        traceback(
            "listing workflows",
            "sqlalchemy.exc.OperationalError: (psycopg.OperationalError) server closed"
            " the connection",
            "[parameters: {'id': 'secret'}]",
            "(Background on this error at: somewhere)",
        )
    )

    assert isinstance(error, ExecutorFailedError)
    assert error.summary.endswith("server closed the connection")
    assert "secret" not in str(error)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("", ""),
        ("  \n ", ""),
        ("  indented only", "indented only"),
        ("first\nlast\n", "last"),
        ('x\n  File "a.py", line 1, in f\n    f()', "f()"),
    ],
)
def test_reason_is_found_in_any_text(message: str, reason: str) -> None:
    """Also where there is none."""
    assert find_reason(message) == reason
