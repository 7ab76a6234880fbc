"""Reading for many tasks at once what they all want to know now."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Generic, TypeAlias, TypeVar

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

ReadMany: TypeAlias = Callable[[Collection[_Key]], Awaitable[Mapping[_Key, _Value]]]


class _Question(Generic[_Key, _Value]):
    __slots__ = ("error", "is_answered", "key", "value")

    def __init__(self, key: _Key) -> None:
        self.key = key
        self.value: _Value | None = None
        self.error: Exception | None = None
        self.is_answered = False


class Gathering(Generic[_Key, _Value]):
    """
    Reads what several tasks ask for in one go.

    While one reading is under way the next questions gather, and are then answered by
    one. So nobody gets what was read before it asked, and nothing is remembered: what a
    transaction costs is shared by those who would have queued for one each.
    """

    def __init__(self, read_many: ReadMany[_Key, _Value]) -> None:
        """
        Args:
            read_many: the value of each key that has one; no key is given twice.
        """
        self._read_many = read_many
        self._questions: list[_Question[_Key, _Value]] = []
        self._turn = asyncio.Lock()

    async def read(self, key: _Key) -> _Value | None:
        """
        The value that `key` has now, if it has one.

        Raises what the reading raises, in every task that it was for.
        """
        own: _Question[_Key, _Value] = _Question(key)
        self._questions.append(own)
        try:
            async with self._turn:
                if not own.is_answered:
                    await self._answer()
        finally:
            if not own.is_answered:
                self._questions.remove(own)
        if own.error is not None:
            raise own.error
        return own.value

    async def _answer(self) -> None:
        asked = list(self._questions)
        values: Mapping[_Key, _Value] = {}
        failure: Exception | None = None
        try:
            values = await self._read_many({question.key for question in asked})
        except Exception as error:
            failure = error
        for question in asked:
            question.value = values.get(question.key)
            question.error = failure
            question.is_answered = True
        # Those who were cancelled have left, those who came since stay.
        self._questions = [q for q in self._questions if not q.is_answered]
