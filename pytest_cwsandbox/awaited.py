"""References of which it is known whether anybody waited: a forgotten `await` passes every test."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import pytest
from cwsandbox import OperationRef

if TYPE_CHECKING:
    import concurrent.futures
    from collections.abc import Generator, Sequence

T = TypeVar("T")


class Awaited(OperationRef[T]):
    """The SDK's reference, which remembers that it was waited for."""

    def __init__(self, future: concurrent.futures.Future[T], name: str) -> None:
        super().__init__(future)
        self.future = future
        self.name = name
        self.waited = False

    @classmethod
    def of(cls, ref: OperationRef[T], name: str) -> Awaited[T]:
        return cls(ref._future, name)  # noqa: SLF001 - the SDK shows its future to nobody

    def result(self, timeout: float | None = None) -> T:
        self.waited = True
        return super().result(timeout)

    def __await__(self) -> Generator[object, None, T]:
        self.waited = True
        return super().__await__()

    def __getattr__(self, attribute: str) -> object:
        """Tell what is missing when somebody takes it for the result."""
        raise AttributeError(
            f"{attribute}: this is no result yet: write `await {self.name}(...)` or "
            f"`{self.name}(...).result()`"
        )


def check_awaited(refs: Sequence[Awaited[T]]) -> None:
    """Fail the test that started something and never looked at it."""
    forgotten = [ref for ref in refs if not ref.waited]
    if forgotten:
        name = forgotten[0].name
        pytest.fail(
            f"the test started {name}() and never waited for it: write `await {name}(...)` or "
            f"`{name}(...).result()`",
            pytrace=False,
        )
