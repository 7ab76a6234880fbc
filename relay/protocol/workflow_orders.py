"""Changing workflows: cancel, resume, delete, fork, rewind, export and import."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, TypeAlias, assert_never

import msgspec

from relay.errors import InvalidInputError
from relay.protocol.envelope import REQUIRED_NULL
from relay.protocol.frames import FrameError, read_frame
from relay.protocol.messages import Acknowledgement, read_acknowledgement
from relay.protocol.rows import Scalar, read_new_id
from relay.protocol.sanitising import clean_text

START_STEP_LIMIT: Final = 2**30 - 1
"""Go does not answer beyond it."""


def _targets(message_type: str, workflow_ids: tuple[str, ...]) -> dict[str, object]:
    """
    The keys that name one or several workflows.

    Python needs `workflow_id` in any case; where there is a `workflow_ids`, SDKs that
    know it look at nothing else.
    """
    targets = tuple(dict.fromkeys(workflow_ids))
    if not all(targets) or not targets:
        raise InvalidInputError(f"{message_type}.workflow_ids", "must not be empty")
    if len(targets) == 1:
        return {"workflow_id": targets[0]}
    return {"workflow_id": targets[0], "workflow_ids": targets}


def _set_names(**options: object) -> tuple[str, ...]:
    return tuple(name for name, value in options.items() if value)


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRequest:
    """
    Orders workflows cancelled, with their children or without.

    What is finished, or unknown, stays as it is and is no failure.
    """

    workflow_ids: tuple[str, ...]
    cancel_children: bool = False
    message_type: ClassVar[str] = "cancel"

    def used_options(self) -> tuple[str, ...]:
        """The names of the options that are set; of one id, not `workflow_ids`."""
        return _set_names(
            workflow_ids=len(set(self.workflow_ids)) > 1,
            cancel_children=self.cancel_children,
        )

    def fields(self) -> Mapping[str, object]:
        return {
            **_targets(self.message_type, self.workflow_ids),
            "cancel_children": self.cancel_children,
        }

    def decode_reply(self, frame: bytes) -> Acknowledgement:
        return read_acknowledgement(frame)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeRequest:
    """
    Orders workflows put back on a queue, by default the SDK's internal one.

    A pending workflow is put back too, so a repeated order can run its step twice.
    """

    workflow_ids: tuple[str, ...]
    queue_name: str | None = None
    message_type: ClassVar[str] = "resume"

    def used_options(self) -> tuple[str, ...]:
        """The names of the options that are set; of one id, not `workflow_ids`."""
        return _set_names(
            workflow_ids=len(set(self.workflow_ids)) > 1, queue_name=self.queue_name
        )

    def fields(self) -> Mapping[str, object]:
        targets = _targets(self.message_type, self.workflow_ids)
        return {**targets, **_optional_texts(queue_name=self.queue_name)}

    def decode_reply(self, frame: bytes) -> Acknowledgement:
        return read_acknowledgement(frame)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRequest:
    """Orders workflows deleted in whatever state; unknown ones are no failure."""

    workflow_ids: tuple[str, ...]
    delete_children: bool = False
    message_type: ClassVar[str] = "delete"

    def used_options(self) -> tuple[str, ...]:
        """The names of the options that are set; of one id, not `workflow_ids`."""
        return _set_names(
            workflow_ids=len(set(self.workflow_ids)) > 1,
            delete_children=self.delete_children,
        )

    def fields(self) -> Mapping[str, object]:
        return {
            **_targets(self.message_type, self.workflow_ids),
            "delete_children": self.delete_children,
        }

    def decode_reply(self, frame: bytes) -> Acknowledgement:
        return read_acknowledgement(frame)


class _ForkReply(msgspec.Struct):
    new_workflow_id: Scalar = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Placing:
    """An order that says which version is to run the work, and on which queue."""

    app_version: str | None = None
    queue_name: str | None = None
    queue_partition_key: str | None = None

    def used_options(self) -> tuple[str, ...]:
        """The names of the options that are set."""
        return _set_names(
            app_version=self.app_version,
            queue_name=self.queue_name,
            queue_partition_key=self.queue_partition_key,
        )

    def _placement(self) -> Mapping[str, object]:
        return _optional_texts(
            application_version=self.app_version,
            queue_name=self.queue_name,
            queue_partition_key=self.queue_partition_key,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkWorkflowRequest(_Placing):
    """
    Orders a new workflow that takes over the steps of an old one before `start_step`.

    Steps are numbered as the SDK does (from 1 in Python, from 0 elsewhere); 0 is "from
    the beginning" in each. Without a version Python stores none, the others inherit.
    """

    workflow_id: str
    start_step: int
    new_workflow_id: str | None = None
    message_type: ClassVar[str] = "fork_workflow"

    def used_options(self) -> tuple[str, ...]:
        """The names of the options that are set."""
        # Not `super()`: it does not find a class that has got slots.
        return (
            *_Placing.used_options(self),
            *_set_names(new_workflow_id=self.new_workflow_id),
        )

    def fields(self) -> Mapping[str, object]:
        _check_step(f"{self.message_type}.start_step", self.start_step)
        # Python needs the first four keys, set or not.
        return {
            "body": {
                "workflow_id": self.workflow_id,
                "start_step": self.start_step,
                "application_version": REQUIRED_NULL,
                "new_workflow_id": self.new_workflow_id or REQUIRED_NULL,
                **self._placement(),
            }
        }

    def decode_reply(self, frame: bytes) -> str:
        """
        The id of the new workflow.

        Raises:
            FrameError: there is none, or one without end.
        """
        reply = read_frame(frame, _ForkReply)
        return read_new_id(reply.new_workflow_id, "new workflow")


@dataclass(frozen=True, slots=True, kw_only=True)
class RewindWorkflowRequest(_Placing):
    """
    Orders a finished workflow put back on a queue without its steps from `start_step`.

    It keeps its id. Steps are numbered as for a fork. Without a version it keeps its
    own, without a queue it goes to the SDK's internal one, whatever queue it was on. A
    workflow that is not finished is refused. Messages that were sent to the workflow
    and not received are deleted; so are its deadline and its deduplication id.
    """

    workflow_id: str
    start_step: int
    message_type: ClassVar[str] = "rewind_workflow"

    def fields(self) -> Mapping[str, object]:
        _check_step(f"{self.message_type}.start_step", self.start_step)
        return {
            "body": {
                "workflow_id": self.workflow_id,
                "start_step": self.start_step,
                **self._placement(),
            }
        }

    def decode_reply(self, frame: bytes) -> Acknowledgement:
        return read_acknowledgement(frame)


def _check_step(path: str, step: int) -> None:
    if not 0 <= step <= START_STEP_LIMIT:
        raise InvalidInputError(path, f"must be between 0 and {START_STEP_LIMIT}", step)


def _optional_texts(**texts: str | None) -> dict[str, object]:
    return {name: text for name, text in texts.items() if text}


@dataclass(frozen=True, slots=True)
class FromLastFailure:
    """From the last step that failed; from the last one if none did."""


@dataclass(frozen=True, slots=True)
class FromLastStep:
    """From the last step."""


@dataclass(frozen=True, slots=True)
class FromStep:
    """From the step of this number, as the SDK counts."""

    step: int


@dataclass(frozen=True, slots=True)
class FromStepName:
    """From the last step of this name; each workflow must have one."""

    step_name: str


ForkMode: TypeAlias = FromLastFailure | FromLastStep | FromStep | FromStepName


class _ForksReply(msgspec.Struct):
    forked_workflow_ids: list[Scalar] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkFromFailureRequest(_Placing):
    """Orders a new workflow for each of several, from the step that `mode` finds."""

    workflow_ids: tuple[str, ...]
    mode: ForkMode
    message_type: ClassVar[str] = "fork_from_failure"

    def used_options(self) -> tuple[str, ...]:
        """The names of the options that are set, the mode's included."""
        return (*_Placing.used_options(self), *self._mode())

    def fields(self) -> Mapping[str, object]:
        path = self.message_type
        if not self.workflow_ids or not all(self.workflow_ids):
            raise InvalidInputError(f"{path}.workflow_ids", "must not be empty")
        if isinstance(self.mode, FromStep):
            _check_step(f"{path}.from_step", self.mode.step)
        if self.mode == FromStepName(""):
            raise InvalidInputError(f"{path}.from_step_name", "must not be empty")
        return {
            "body": {
                "workflow_ids": self.workflow_ids,
                **self._mode(),
                **self._placement(),
            }
        }

    def _mode(self) -> dict[str, object]:
        # One key and no other: TypeScript takes a null for a mode that was chosen.
        match self.mode:
            case FromLastFailure():
                return {"from_last_failure": True}
            case FromLastStep():
                return {"from_last_step": True}
            case FromStep(step):
                return {"from_step": step}
            case FromStepName(step_name):
                return {"from_step_name": step_name}
            case _:
                assert_never(self.mode)

    def decode_reply(self, frame: bytes) -> tuple[str, ...]:
        """
        The ids of the new workflows, in the order of the request.

        Raises:
            FrameError: there is no list, or one that is longer than the request's, or
                it holds what is no id.
        """
        listed: object = read_frame(frame, _ForksReply).forked_workflow_ids
        if not isinstance(listed, list):
            raise FrameError("the reply holds no list of new workflows")
        if not 0 < len(listed) <= len(self.workflow_ids):
            raise FrameError(f"the reply names {len(listed)} new workflows")
        return tuple(read_new_id(item, "new workflow") for item in listed)


class _ExportReply(msgspec.Struct):
    serialized_workflow: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportWorkflowRequest:
    """Asks for a workflow as opaque text, which only the same language imports."""

    workflow_id: str
    export_children: bool = False
    message_type: ClassVar[str] = "export_workflow"

    def used_options(self) -> tuple[str, ...]:
        """The names of the options that are set."""
        return _set_names(export_children=self.export_children)

    def fields(self) -> Mapping[str, object]:
        return {
            "workflow_id": self.workflow_id,
            "export_children": self.export_children,
        }

    def decode_reply(self, frame: bytes) -> str:
        """
        The workflow as text; only what is not valid UTF-8 is taken out.

        Raises:
            FrameError: there is none.
        """
        exported: object = read_frame(frame, _ExportReply).serialized_workflow
        text = clean_text(exported) if isinstance(exported, str) else ""
        if not text:
            raise FrameError("the reply holds no exported workflow")
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportWorkflowRequest:
    """
    Orders an exported workflow stored.

    Python unpickles it: whoever may write it may run code inside the executor.
    """

    serialized_workflow: str
    message_type: ClassVar[str] = "import_workflow"

    def used_options(self) -> tuple[str, ...]:
        """None: it has no options."""
        return ()

    def fields(self) -> Mapping[str, object]:
        if not self.serialized_workflow:
            raise InvalidInputError(
                f"{self.message_type}.serialized_workflow", "must not be empty"
            )
        return {"serialized_workflow": self.serialized_workflow}

    def decode_reply(self, frame: bytes) -> Acknowledgement:
        return read_acknowledgement(frame)
