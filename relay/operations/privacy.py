"""What is left of a record when its application is in private mode."""

from msgspec.structs import replace

from relay.protocol.schedules import ScheduleRow
from relay.protocol.workflows import StepRow, WorkflowRow


def without_payloads(row: WorkflowRow) -> WorkflowRow:
    """A workflow without its input, output and error, whatever its SDK has sent."""
    return replace(row, input=None, output=None, error=None)


def without_step_payloads(row: StepRow) -> StepRow:
    """A step without its output and error."""
    return replace(row, output=None, error=None)


def without_context(row: ScheduleRow) -> ScheduleRow:
    """A schedule without its context."""
    return replace(row, context=None)
