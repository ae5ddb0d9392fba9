"""The pool against a session whose sandboxes fail or hang on demand."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import TYPE_CHECKING, cast

import pytest
from cwsandbox import OperationRef, SandboxUnavailableError

from pytest_cwsandbox import pool as pool_module
from pytest_cwsandbox.admission import Admission, Kind
from pytest_cwsandbox.errors import InfrastructureError
from pytest_cwsandbox.grading.attempts import Tally
from pytest_cwsandbox.pool import SandboxPool

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator

    from cwsandbox import Session


class SdkLoop:
    """The SDK's loop, which here is the test's."""

    @staticmethod
    def run_async(work: Coroutine[None, None, None]) -> Future[None]:
        done: Future[None] = Future()

        def end(task: asyncio.Task[None]) -> None:
            error = task.exception()
            done.set_exception(error) if error else done.set_result(None)

        asyncio.ensure_future(work).add_done_callback(end)
        return done


class FakeSandbox:
    returncode = None
    _loop_manager = SdkLoop

    def __init__(self, error: BaseException | None, *, answered: bool = True) -> None:
        self._error = error
        self.created: Future[None] = Future()
        self.stopped = 0
        self.unstoppable = 0  # times that to stop it fails
        if answered:
            self.created.set_result(None)

    def start(self) -> OperationRef[None]:
        return OperationRef(self.created)

    def __await__(self) -> Generator[object, None, FakeSandbox]:
        yield from asyncio.sleep(0).__await__()
        if self._error is not None:
            raise self._error
        return self

    def stop(self, **_: object) -> OperationRef[None]:
        self.stopped += 1
        gone: Future[None] = Future()
        if self.stopped <= self.unstoppable:
            gone.set_exception(SandboxUnavailableError("busy"))
        else:
            gone.set_result(None)
        return OperationRef(gone)


class FakeSession:
    def __init__(self, *errors: BaseException | None, answers: bool = True) -> None:
        self._errors = list(errors)
        self._answers = answers
        self.made: list[FakeSandbox] = []

    def sandbox(self, **_: object) -> FakeSandbox:
        error = self._errors.pop(0) if self._errors else None
        self.made.append(FakeSandbox(error, answered=self._answers))
        return self.made[-1]


def pool_of(session: FakeSession, *, size: int = 2, retries: int = 2) -> SandboxPool:
    return SandboxPool(cast("Session", session), size=size, retries=retries)


@pytest.fixture(autouse=True)
def _no_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "BACKOFF_SECONDS", 0.0)


async def test_a_start_that_fails_is_retried_and_its_sandbox_removed() -> None:
    session = FakeSession(SandboxUnavailableError("busy"))
    pool = pool_of(session)
    tally = Tally()
    async with pool.lease(tally):
        assert [sandbox.stopped for sandbox in session.made] == [1, 0]
    assert [sandbox.stopped for sandbox in session.made] == [1, 1]
    assert (pool.created, pool.failed_starts, tally.retries) == (1, 1, 1)


async def test_starts_that_go_on_failing_are_infrastructure() -> None:
    session = FakeSession(*[SandboxUnavailableError("busy")] * 9)
    pool = pool_of(session, retries=2)
    with pytest.raises(InfrastructureError, match=r"3 attempts: .*busy"):
        await pool.take()
    assert [sandbox.stopped for sandbox in session.made] == [1, 1, 1]


async def test_no_more_than_its_size_are_out_at_once() -> None:
    session = FakeSession()
    pool = pool_of(session, size=1)
    sandbox = await pool.take()
    second = asyncio.ensure_future(pool.take())
    for _ in range(10):
        await asyncio.sleep(0)
    assert len(session.made) == 1
    pool.give_back(sandbox)
    await second
    assert len(session.made) == 2


@pytest.mark.parametrize("error", [asyncio.CancelledError(), SandboxUnavailableError("busy")])
async def test_a_start_that_ends_badly_leaves_its_place_to_others(error: BaseException) -> None:
    session = FakeSession(error)
    pool = pool_of(session, size=1, retries=0)
    with pytest.raises((asyncio.CancelledError, InfrastructureError)):
        await pool.take()
    assert session.made[0].stopped == 1
    await asyncio.wait_for(pool.take(), 60)


async def test_a_start_that_is_cancelled_twice_waits_until_its_sandbox_can_be_removed() -> None:
    session = FakeSession(answers=False)
    taking = asyncio.ensure_future(pool_of(session).take())
    for _ in range(3):
        await asyncio.sleep(0.01)
        taking.cancel()
    [sandbox] = session.made
    assert not taking.done()
    assert sandbox.stopped == 0
    sandbox.created.set_result(None)
    with pytest.raises(asyncio.CancelledError):
        await taking
    assert sandbox.stopped == 1


async def test_a_holder_that_fails_still_gives_its_sandbox_back() -> None:
    session = FakeSession()
    with pytest.raises(ZeroDivisionError):
        async with pool_of(session).lease():
            raise ZeroDivisionError
    assert session.made[0].stopped == 1


async def test_a_removal_that_fails_is_tried_again_and_keeps_the_place_until_then() -> None:
    session, admission = FakeSession(), Admission(most=1)
    pool = SandboxPool(cast("Session", session), retries=2, admission=admission)
    first = await pool.take()
    session.made[0].unstoppable = 2
    pool.give_back(first)
    assert admission.enter_now(Kind.GRADE) is None
    await asyncio.wait_for(admission.enter(Kind.GRADE), 60)
    assert session.made[0].stopped == 3


async def test_one_that_goes_on_failing_is_told_and_holds_up_nobody() -> None:
    session, admission = FakeSession(), Admission(most=1)
    pool = SandboxPool(cast("Session", session), retries=2, admission=admission)
    sandbox = await pool.take()
    session.made[0].unstoppable = 9
    with pytest.raises(SandboxUnavailableError):
        await pool.remove(sandbox)
    await asyncio.wait_for(admission.enter(Kind.GRADE), 60)
    assert session.made[0].stopped == 3
