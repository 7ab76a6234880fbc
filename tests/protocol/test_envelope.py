"""The checked encoder and the head of a reply."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.errors import InvalidInputError
from relay.ids import RequestId
from relay.protocol import (
    REQUIRED_NULL,
    Envelope,
    FrameError,
    JsonObject,
    decode_envelope,
    encode,
    is_unknown_message,
)
from relay.protocol.envelope import ERROR_LIMIT_CHARS
from relay.protocol.frames import LENIENT_LIMIT_BYTES, REPAIR_LIMIT_BYTES
from relay.protocol.sanitising import DEPTH_LIMIT

ID = RequestId("request-1")


@dataclass(frozen=True, slots=True)
class Example:
    """A request with any fields, to try the encoder."""

    content: Mapping[str, object]
    message_type: ClassVar[str] = "example"

    def fields(self) -> Mapping[str, object]:
        return self.content

    def decode_reply(self, frame: bytes) -> None:
        """Nothing: it is never answered."""


class ImportExample(Example):
    message_type = "import_workflow"


def sent(value: object) -> object:
    """`value` as it arrives."""
    return json.loads(encode(Example({"field": value}), ID))["field"]


def test_frame_starts_with_type_and_request_id() -> None:
    """Java reads the two from the start of a frame."""
    text = encode(Example({"name": "x", "flag": True}), ID)

    assert text == (
        '{"type":"example","request_id":"request-1","name":"x","flag":true}'
    )


@pytest.mark.parametrize(
    "value",
    ["text", "ünïcode 💡", True, 0, -(2**53) + 1, ["a"], {"a": {"b": [1, False]}}],
)
def test_plain_values_arrive_as_they_are(value: object) -> None:
    """Texts, flags, whole numbers, lists and mappings pass unchanged."""
    assert sent(value) == value


def test_tuple_arrives_as_a_list() -> None:
    """Frozen requests hold tuples."""
    assert sent(("a", "b")) == ["a", "b"]


def test_instants_are_written_in_the_one_form_all_sdks_read() -> None:
    """UTC with a numeric offset and three digits, cut off and not rounded."""
    nepal = timezone(timedelta(hours=5, minutes=45))
    late = datetime(2026, 11, 30, 17, 45, 1, 999_999, tzinfo=nepal)

    assert sent(late) == "2026-11-30T12:00:01.999+00:00"
    assert sent(datetime(2026, 1, 1, tzinfo=UTC)) == "2026-01-01T00:00:00.000+00:00"


def test_required_null_is_written() -> None:
    """Only a declared null is one."""
    assert sent({"key": REQUIRED_NULL}) == {"key": None}


@pytest.mark.parametrize(
    ("value", "location"),
    [
        ("a\0b", "example.field"),
        ("\ud800", "example.field"),
        ([], "example.field"),
        ((), "example.field"),
        (2**53, "example.field"),
        (-(2**53), "example.field"),
        ({"ids": ["ok", "\0"]}, "example.field.ids[1]"),
        ({"k\0": 1}, "example.field"),
    ],
)
def test_value_that_breaks_an_sdk_is_refused_with_its_path(
    value: object, location: str
) -> None:
    """Nothing is sent, and the error says which field is wrong."""
    with pytest.raises(InvalidInputError) as refusal:
        encode(Example({"field": value}), ID)

    assert refusal.value.location == location


@pytest.mark.parametrize(
    "value",
    [None, 1.0, float("nan"), b"bytes", {1}, datetime(2026, 1, 1), object()],  # noqa: DTZ001 - naive on purpose
)
def test_type_unknown_to_the_wire_is_a_defect(value: object) -> None:
    """Undeclared nulls, fractions and naive instants are mistakes of the caller."""
    with pytest.raises(TypeError, match=r"example\.field"):
        encode(Example({"field": value}), ID)


def test_data_of_a_user_is_sent_as_it_is() -> None:
    """Where every SDK expects any JSON, the rules for options do not hold."""
    data: dict[str, Any] = {
        "n": None,
        "f": -1.5,
        "empty": [],
        "text": "",
        "deep": {"a": [{}, [0]]},
    }

    assert sent(JsonObject(data)) == data


@pytest.mark.parametrize(
    ("data", "location"),
    [
        ({"a": float("nan")}, "example.field.a"),
        ({"a": [1, {"b": float("-inf")}]}, "example.field.a[1].b"),
        ({"a": 2**53}, "example.field.a"),
        ({"a": "\0"}, "example.field.a"),
        ({"\ud800": 1}, "example.field"),
    ],
)
def test_data_that_would_arrive_as_something_else_is_refused(
    data: dict[str, Any], location: str
) -> None:
    """The error says where it is."""
    with pytest.raises(InvalidInputError) as refusal:
        encode(Example({"field": JsonObject(data)}), ID)

    assert refusal.value.location == location


def test_data_is_as_deep_as_it_may_be_and_no_deeper() -> None:
    """Counted from the object itself."""
    data: dict[str, Any] = {}
    for _ in range(DEPTH_LIMIT - 1):
        data = {"a": data}

    assert sent(JsonObject(data)) == data
    with pytest.raises(InvalidInputError, match="must not be deeper than 32"):
        sent(JsonObject({"a": data}))


def test_data_of_a_type_that_json_lacks_is_a_defect() -> None:
    """What came from JSON has none."""
    with pytest.raises(TypeError, match=r"example\.field\.a"):
        sent(JsonObject({"a": b"bytes"}))


def test_instant_that_has_no_year_in_utc_is_refused() -> None:
    """A caller may write the first hour of year 1 in Nepal."""
    nepal = timezone(timedelta(hours=5, minutes=45))

    with pytest.raises(InvalidInputError, match="years 1 and 9999") as refusal:
        sent(datetime(1, 1, 1, tzinfo=nepal))

    assert refusal.value.location == "example.field"


@pytest.mark.parametrize("name", ["type", "request_id"])
def test_fields_cannot_replace_the_envelope(name: str) -> None:
    """A field called like the head would make two messages of one."""
    with pytest.raises(TypeError, match=name):
        encode(Example({name: "x"}), ID)


def test_request_id_with_nul_is_refused() -> None:
    """The head is checked like the rest."""
    with pytest.raises(InvalidInputError) as refusal:
        encode(Example({}), RequestId("\0"))

    assert refusal.value.location == "request_id"


def test_only_an_import_looks_like_one_to_java() -> None:
    """The word is escaped where it is a value, and plain where it is the type."""
    text = encode(Example({"application_name": ["import_workflow"]}), ID)

    assert '"import_workflow"' not in text
    assert json.loads(text)["application_name"] == ["import_workflow"]
    assert encode(ImportExample({}), ID).startswith('{"type":"import_workflow",')


def test_envelope_leaves_the_payload_alone() -> None:
    """Only the head is read."""
    frame = b'{"output": [1, {"a": 2}], "type": "t", "request_id": "r"}'

    assert decode_envelope(frame) == Envelope("t", "r", None)


@pytest.mark.parametrize(
    ("echoed", "request_id"),
    [(b'"r"', "r"), (b"17", "17"), (b"1.5", "1.5"), (b"NaN", "NaN")],
)
def test_request_id_is_text_whatever_was_echoed(echoed: bytes, request_id: str) -> None:
    """Executors echo a number as a number."""
    frame = b'{"type": "t", "request_id": ' + echoed + b"}"

    assert decode_envelope(frame).request_id == request_id


@pytest.mark.parametrize(
    "token", [b"NaN", b"Infinity", b"-Infinity", b"1e999", b'"\\ud800"']
)
def test_payload_that_is_not_strict_json_is_tolerated(token: bytes) -> None:
    """Python writes numbers that are none, TypeScript halves of characters."""
    frame = b'{"type": "t", "request_id": "r", "error_message": null, "x": %b}' % token

    assert decode_envelope(frame) == Envelope("t", "r", None)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (rb"cut \ud83d", "cut "),
        (rb"\uDE00 cut", " cut"),
        (rb"\ude00\ud83d twice", " twice"),
        (rb"whole \uD83D\uDE00", "whole 😀"),
        (rb"whole \ud83d\ud83d\ude00", "whole 😀"),
        (rb"no escape \\ud83d", r"no escape \ud83d"),
        (rb"backslash \\\ud83d", "backslash \\"),
    ],
)
def test_half_a_character_does_not_make_a_large_frame_unreadable(
    text: bytes, left: str
) -> None:
    """TypeScript cuts texts where it likes; the rest of the frame is as it was."""
    frame = b'{"type": "t", "request_id": "r", "x": "%b", "error_message": "%b"}' % (
        rb"\udfff" + b"s" * LENIENT_LIMIT_BYTES,
        text,
    )

    assert decode_envelope(frame).error_message == left


def test_frame_that_is_too_large_is_not_repaired() -> None:
    """It would take too long; nobody's listing is so large and so wrong."""
    frame = b'{"type": "t", "request_id": "r", "x": "\\ud83d%b"}' % (
        b"s" * REPAIR_LIMIT_BYTES
    )

    with pytest.raises(FrameError, match="larger than"):
        decode_envelope(frame)


def test_large_frame_is_utf8_across_the_parts_it_is_checked_in() -> None:
    """A character may begin in one part and end in the next; or not end at all."""
    frame = b'{"type": "t", "request_id": "r", "x": "%b"}' % (
        "é💡".encode() * LENIENT_LIMIT_BYTES
    )

    assert decode_envelope(frame) == Envelope("t", "r", None)
    with pytest.raises(FrameError, match="not UTF-8"):
        decode_envelope(frame + b"\xc3")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (b'"boom"', "boom"),
        (b'" "', " "),
        (b'"a\\u0000b"', "ab"),
        (b'"\\u0000"', "(unreadable)"),
        (b'"half \\ud800"', "half "),
        (b'""', None),
        (b"null", None),
        (b"false", None),
        (b"0", None),
        (b'{"a": 1}', None),
    ],
)
def test_only_a_text_with_something_in_it_is_an_error(
    error: bytes, message: str | None
) -> None:
    """A failure is a failure even if nothing of its text can be kept."""
    frame = b'{"type": "t", "request_id": "r", "error_message": %b}' % error

    assert decode_envelope(frame).error_message == message


def test_long_error_message_keeps_its_end() -> None:
    """A traceback says at its end what went wrong."""
    text = "x" * ERROR_LIMIT_CHARS + "ValueError: why"
    frame = json.dumps({"type": "t", "request_id": "r", "error_message": text})

    message = decode_envelope(frame.encode()).error_message

    assert message is not None
    assert message.endswith("ValueError: why")
    assert len(message) == ERROR_LIMIT_CHARS


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (b"", "not JSON"),
        (b"secret", "not JSON"),
        (b'{"type": "secret"', "not JSON"),
        (b'{"type": "t", "request_id": ' + b"1" * 5000 + b"}", "not JSON"),
        (b'"secret"', "not a JSON object"),
        (b"[1]", "not a JSON object"),
        (b"null", "not a JSON object"),
        (b"NaN", "not a JSON object"),
        (b'{"request_id": "secret"}', "no type"),
        (b'{"type": 5, "request_id": "secret"}', "no type"),
        (b'{"type": "secret"}', "no request id"),
        (b'{"type": "secret", "request_id": ""}', "no request id"),
        (b'{"type": "secret", "request_id": true}', "no request id"),
        (b'{"type": "secret", "request_id": ["secret"]}', "no request id"),
        (b'{"type": "t", "request_id": "r", "x": "secret\xff"}', "not UTF-8"),
        (b'{"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "too deeply"),
        (b'{"y": NaN, "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "too deeply"),
        (b'{"x": NaN, "y": "' + b"s" * LENIENT_LIMIT_BYTES + b'"}', "larger than"),
        (
            b'{"y": "\\ud800' + b"s" * LENIENT_LIMIT_BYTES + b'", "x": NaN}',
            "larger than",
        ),
        (
            b'{"y": "\\ud800' + b"s" * LENIENT_LIMIT_BYTES + b'", "x": ' + b"[" * 10**5,
            "too deeply",
        ),
    ],
)
def test_unusable_frame_is_an_error_without_its_content(
    frame: bytes, reason: str
) -> None:
    """The error says what is wrong and quotes nothing."""
    with pytest.raises(FrameError, match=reason) as error:
        decode_envelope(frame)

    assert "secret" not in str(error.value)
    assert error.value.__cause__ is None


@given(st.binary())
def test_bytes_are_an_envelope_or_a_frame_error(frame: bytes) -> None:
    """Nothing else can come of what an executor sends."""
    try:
        envelope = decode_envelope(frame)
    except FrameError:
        return
    assert envelope.request_id


@pytest.mark.parametrize(
    ("message", "is_unknown"),
    [
        ("Unknown message type", True),
        ("unknown message type\n", True),
        ("Unknown executor", False),
        ("boom: Unknown message type", False),
    ],
)
def test_unknown_message_is_recognised(message: str, *, is_unknown: bool) -> None:
    """It is the way to find out what an SDK can do."""
    assert is_unknown_message(message) is is_unknown
