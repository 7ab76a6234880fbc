"""Who an executor says that it is: read, made presentable, or refused."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from relay.ids import AppVersion, ExecutorId
from relay.protocol import FrameError
from relay.protocol.messages import (
    IDENTITY_LIMIT_BYTES,
    IDENTITY_LIMIT_CHARS,
    ExecutorInfo,
    ExecutorInfoRequest,
)
from relay.protocol.sanitising import METADATA_LIMIT_BYTES
from tests.protocol.fields import reply, written

any_text = st.text(st.characters(categories=None))
any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | any_text,
    lambda inner: st.lists(inner) | st.dictionaries(any_text, inner),
)


def list_parts(value: Any) -> Iterator[Any]:
    """Every key and value in decoded JSON."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from list_parts(item)
    elif isinstance(value, list):
        for item in value:
            yield from list_parts(item)
    else:
        yield value


def read_info(**fields: Any) -> ExecutorInfo:
    return ExecutorInfoRequest().decode_reply(reply(**fields))


def test_executor_info_is_asked_bare() -> None:
    """The question has no fields."""
    assert written(ExecutorInfoRequest()) == {}


def test_minimal_executor_info_is_accepted() -> None:
    """The oldest SDKs say no more than their id."""
    assert read_info(executor_id="e") == ExecutorInfo(
        executor_id=ExecutorId("e"),
        application_version=AppVersion(""),
        hostname=None,
        language=None,
        dbos_version=None,
        metadata=None,
    )


def test_identity_may_be_a_number() -> None:
    """A configured number stays recognisable."""
    info = read_info(executor_id=7, application_version=12)

    assert (info.executor_id, info.application_version) == ("7", "12")


@pytest.mark.parametrize("executor_id", [None, "", "\0", "\ud800"])
def test_executor_without_an_id_is_refused(executor_id: str | None) -> None:
    """Nobody could be declared dead, or recovered."""
    with pytest.raises(FrameError, match="names no executor id"):
        read_info(executor_id=executor_id)


@pytest.mark.parametrize("name", ["executor_id", "application_version"])
@pytest.mark.parametrize("value", [True, 1.5, ["e"], {"id": "e"}])
def test_identity_that_is_no_text_is_refused(name: str, value: object) -> None:
    """A guessed id or version would be asked about, and have nothing pending."""
    with pytest.raises(FrameError, match="is no text"):
        read_info(**{"executor_id": "e", name: value})


@pytest.mark.parametrize("name", ["executor_id", "application_version"])
@pytest.mark.parametrize(
    "text",
    [
        "x" * (IDENTITY_LIMIT_CHARS + 1),
        "\N{OLD PERSIAN SIGN A}" * (IDENTITY_LIMIT_BYTES // 4 + 1),
    ],
)
def test_identity_is_never_cut(name: str, text: str) -> None:
    """A shortened id or version would name somebody else."""
    with pytest.raises(FrameError, match="longer than") as error:
        read_info(**{"executor_id": "e", name: text})

    assert text[:2] not in str(error.value)


@pytest.mark.parametrize("name", ["hostname", "language", "dbos_version"])
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a\0b", "ab"),
        ("x" * 600, "x" * IDENTITY_LIMIT_CHARS),
        (42, "42"),
        ("", None),
        (None, None),
        (True, None),
        (1.5, None),
        ({"a": 1}, None),
    ],
)
def test_labels_are_made_presentable(
    name: str, value: object, expected: str | None
) -> None:
    """What only people read is cut and cleaned, and never costs the connection."""
    assert getattr(read_info(executor_id="e", **{name: value}), name) == expected


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"a": float("nan")}, {"a": "NaN"}),
        ({"a": [float("inf"), float("-inf")]}, {"a": ["Infinity", "-Infinity"]}),
        ({"k\0ey": "v\0alue"}, {"key": "value"}),
        ({"a": "\udc00!"}, {"a": "!"}),
        ({"a": 2**70}, {"a": str(2**70)}),
        ({"a": 1, "b": None, "c": True, "d": 0.5}, None),
        ({}, {}),
    ],
)
def test_metadata_is_made_storable(
    metadata: dict[str, Any], expected: dict[str, Any] | None
) -> None:
    """What no database or JSON can hold becomes text or vanishes; the rest stays."""
    info = read_info(executor_id="e", executor_metadata=metadata)

    assert info.metadata == (metadata if expected is None else expected)


@pytest.mark.parametrize("metadata", [None, [1], "text", 5])
def test_metadata_that_is_no_mapping_is_ignored(metadata: object) -> None:
    """It costs nothing but itself."""
    assert read_info(executor_id="e", executor_metadata=metadata).metadata is None


def test_infinite_float_of_strict_json_becomes_text() -> None:
    """A number can overflow without being spelled as infinite."""
    info = ExecutorInfoRequest().decode_reply(
        b'{"executor_id": "e", "executor_metadata": {"a": [1e999, -1e999]}}'
    )

    assert info.metadata == {"a": ["Infinity", "-Infinity"]}


def test_large_metadata_is_replaced_by_a_remark() -> None:
    """The executor is kept, and its owner can see why the metadata is not."""
    kept = read_info(
        executor_id="e", executor_metadata={"a": "x" * (METADATA_LIMIT_BYTES - 8)}
    )
    dropped = read_info(
        executor_id="e", executor_metadata={"a": "x" * (METADATA_LIMIT_BYTES - 7)}
    )

    assert kept.metadata == {"a": "x" * (METADATA_LIMIT_BYTES - 8)}
    assert dropped.metadata == {
        "dropped": "larger than 65536 bytes",
        "size_bytes": METADATA_LIMIT_BYTES + 1,
    }


def test_huge_metadata_is_not_even_built() -> None:
    """A frame of megabytes costs no more than finding the identity in it."""
    frame = reply(
        executor_id="e", hostname="box", executor_metadata={"a": ["x"] * 500_000}
    )

    info = ExecutorInfoRequest().decode_reply(frame)

    assert (info.executor_id, info.hostname) == ("e", "box")
    assert info.metadata is not None
    assert info.metadata["size_bytes"] == len(frame)


def test_deep_metadata_ends_in_a_remark() -> None:
    """Depth is bounded far below what readers can take."""
    nested: dict[str, Any] = {}
    for _ in range(40):
        nested = {"a": [nested]}

    info = read_info(executor_id="e", executor_metadata=nested)

    assert json.dumps(info.metadata).count("(nested too deeply)") == 1
    assert json.dumps(info.metadata).count("[") == 16


@settings(deadline=None)  # building a large example may take long on a busy machine
@given(
    executor_id=st.just("e") | any_json,
    others=st.dictionaries(
        st.sampled_from(
            ["application_version", "hostname", "language", "dbos_version"]
        ),
        any_json,
    ),
    metadata=any_json | st.dictionaries(any_text, any_json),
    is_ascii=st.booleans(),
)
def test_any_executor_info_is_harmless_or_refused(
    executor_id: Any, others: dict[str, Any], metadata: Any, *, is_ascii: bool
) -> None:
    """Whatever an executor says of itself can be stored, logged and sent on."""
    fields = {"executor_id": executor_id, "executor_metadata": metadata, **others}
    text = json.dumps(fields, ensure_ascii=is_ascii)

    try:
        info = ExecutorInfoRequest().decode_reply(text.encode("utf-8", "surrogatepass"))
    except FrameError:
        return

    assert info.executor_id
    for part in list_parts(asdict(info)):
        assert not isinstance(part, str) or "\0" not in part
    # Neither NaN nor half a character is left.
    assert json.dumps(asdict(info), ensure_ascii=False, allow_nan=False).encode()


@settings(deadline=None)  # the deep examples are large
@given(st.integers(1, 3000), st.sampled_from([("[", "]"), ('{"a":', "}")]))
@example(100_000, ("[", "]"))
@example(20_000, ('{"a":', "}"))
def test_deep_executor_info_is_harmless_or_refused(
    depth: int, brackets: tuple[str, str]
) -> None:
    """No depth brings the process down."""
    opening, closing = brackets
    inner = opening * depth + "1" + closing * depth
    frame = f'{{"executor_id": "e", "executor_metadata": {{"a": {inner}}}}}'

    try:
        info = ExecutorInfoRequest().decode_reply(frame.encode())
    except FrameError:
        return

    assert json.dumps(info.metadata)
