"""Whether the story ended well: what the exit status of the demo means."""

from collections.abc import Sequence

from demo.stage import DemoFailedError


def judge(
    *,
    status: str,
    planned: Sequence[str],
    recorded: Sequence[str],
    noted: Sequence[tuple[str, str, str]],
    doomed: str,
    heir: str,
) -> None:
    """
    Return if the work of the dead executor was finished by the other one.

    Args:
        status: of the workflow at the end, in the words of DBOS.
        planned: all steps of the workflow.
        recorded: the steps that DBOS knew as finished when the executor died.
        noted: event (`begin`, `end`), step, name of the executor, in order.
        doomed: name of the executor that was killed.
        heir: name of the other one.

    Raises:
        DemoFailedError: it did not end well; the message says how.
    """
    if status != "SUCCESS":
        raise DemoFailedError(f"the workflow is {status}, not SUCCESS")
    runs = {
        step: [
            name for event, begun, name in noted if (event, begun) == ("begin", step)
        ]
        for step in planned
    }
    for step in recorded:
        if runs[step] != [doomed]:
            raise DemoFailedError(f"the finished step {step!r} ran twice")
    for step in planned:
        if step in recorded:
            continue
        if runs[step][-1:] != [heir] or ("end", step, heir) not in noted:
            raise DemoFailedError(f"executor {heir} did not finish step {step!r}")
        if runs[step].count(heir) > 1:
            raise DemoFailedError(f"step {step!r} ran twice on executor {heir}")
