"""What the system has to give: an address, and descriptors."""

import asyncio
import resource
import socket
from collections.abc import Iterator

import pytest

from relay.errors import SettingsError
from relay.launch import bind, raise_descriptor_limit


def test_all_addresses_of_a_name_get_one_port() -> None:
    """`localhost` may be two addresses; clients try either."""
    listeners = bind("localhost", 0)

    ports = {listener.getsockname()[1] for listener in listeners}
    for listener in listeners:
        listener.close()

    assert len(ports) == 1
    assert 0 not in ports


async def test_answers_do_not_wait_for_each_other_on_the_wire() -> None:
    """
    A body goes out at once, although the head before it is not acknowledged yet.

    asyncio sees to that only for sockets that say they are TCP, and an accepted one
    says what its listener said; otherwise every answer takes another 40 ms.
    """
    [listener] = bind("127.0.0.1", 0)
    accepted: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def look(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        taken = writer.get_extra_info("socket")
        accepted.set_result(taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    async with await asyncio.start_server(look, sock=listener):
        _, writer = await asyncio.open_connection(*listener.getsockname())
        no_delay = await accepted
        writer.close()
        await writer.wait_closed()

    assert no_delay == 1


def test_an_address_that_is_taken_is_told() -> None:
    """The message names it, and no socket stays open."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        with pytest.raises(SettingsError, match=rf"127\.0\.0\.1:{port}: Address"):
            bind("127.0.0.1", port)


def test_a_name_without_address_is_told() -> None:
    """A typing error in the host is no traceback."""
    with pytest.raises(SettingsError, match="cannot listen on no-such-host"):
        bind("no-such-host.invalid", 8090)


@pytest.fixture
def low_limit() -> Iterator[int]:
    """A soft limit of open files below the hard one."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft = min(before[0], before[1] - 1)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, before[1]))
    yield soft
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_the_limit_of_open_files_is_raised_to_what_is_allowed(low_limit: int) -> None:
    """The common default of 1024 would be a thousand executors."""
    raise_descriptor_limit()

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert soft == hard
    assert soft > low_limit


def test_a_family_the_machine_lacks_is_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`localhost` names an IPv6 address also where IPv6 is switched off."""
    v4 = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0))
    lacking = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", 0))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [lacking, v4])

    [listener] = bind("localhost", 0)

    assert listener.getsockname()[0] == "127.0.0.1"
    listener.close()


@pytest.mark.parametrize(
    ("limits", "wanted"),
    [
        ((1024, resource.RLIM_INFINITY), 1_048_576),
        ((2_000_000, resource.RLIM_INFINITY), None),
        ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), None),
        ((4096, 4096), None),
    ],
)
def test_a_limit_without_end_is_not_asked_for(
    monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int], wanted: int | None
) -> None:
    """Infinity is a negative number here, and some systems refuse to give it."""
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(resource, "setrlimit", lambda _, pair: asked.append(pair))

    raise_descriptor_limit()

    assert asked == ([] if wanted is None else [(wanted, limits[1])])


def test_a_limit_that_cannot_be_raised_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The server runs with what it has."""

    def refuse(_: int, __: tuple[int, int]) -> None:
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 4096))
    monkeypatch.setattr(resource, "setrlimit", refuse)

    raise_descriptor_limit()
