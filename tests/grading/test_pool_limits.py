"""What decides how many sandboxes there are: the user's limit, and a service without room."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, cast

import pytest
from cwsandbox import OperationRef, SandboxResourceExhaustedError, SandboxStatus

from pytest_cwsandbox import pool as pool_module
from pytest_cwsandbox.admission import Admission, Kind, Place
from pytest_cwsandbox.errors import InfrastructureError
from pytest_cwsandbox.pool import SandboxPool
from pytest_cwsandbox.sandbox_fixtures import Sandboxes

from .test_pool import SdkLoop

if TYPE_CHECKING:
    from collections.abc import Generator

    from cwsandbox import Session


class FakeSandbox:
    def __init__(self, service: FakeService) -> None:
        self._service = service
        self._gone: Future[None] = Future()
        self.alive = False

    returncode = None  # as of one that was not waited for
    _loop_manager = SdkLoop

    def start(self) -> OperationRef[None]:
        created: Future[None] = Future()
        if self._service.alive >= self._service.capacity:
            created.set_exception(SandboxResourceExhaustedError("full"))
        else:
            self.alive = True
            self._service.alive += 1
            self._service.highest = max(self._service.highest, self._service.alive)
            created.set_result(None)
        return OperationRef(created)

    def __await__(self) -> Generator[object, None, FakeSandbox]:
        yield from asyncio.sleep(0).__await__()
        return self

    @property
    def sandbox_id(self) -> str | None:
        return "id" if self.alive else None

    def get_status(self) -> SandboxStatus:
        return SandboxStatus.RUNNING if self.alive else SandboxStatus.FAILED

    def stop(self, **_: object) -> OperationRef[None]:
        if not self.alive or not self._service.slow:
            self.end()
        return OperationRef(self._gone)

    def end(self) -> None:
        if self.alive:
            self._service.alive -= 1
        self.alive = False
        if not self._gone.done():
            self._gone.set_result(None)


class FakeService:
    """A session whose service has room for so many; ``slow`` ones end when the test says so."""

    def __init__(self, capacity: int = 1000, *, slow: bool = False) -> None:
        self.capacity = capacity
        self.slow = slow
        self.alive = self.highest = 0
        self.made: list[FakeSandbox] = []

    def sandbox(self, **_: object) -> FakeSandbox:
        self.made.append(FakeSandbox(self))
        return self.made[-1]

    def pool(self, admission: Admission, kind: Kind = Kind.GRADE) -> SandboxPool:
        return SandboxPool(cast("Session", self), kind=kind, retries=0, admission=admission)


@pytest.fixture(autouse=True)
def _no_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "BACKOFF_SECONDS", 0.001)


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0.001)


async def use(pool: SandboxPool) -> None:
    async with pool.lease():
        await asyncio.sleep(0.002)


async def enter(admission: Admission, *kinds: Kind) -> list[Place]:
    return [await asyncio.wait_for(admission.enter(kind), 10) for kind in kinds]


class TestTheUsersLimit:
    async def test_places_are_kept_for_those_whom_others_may_wait_for(self) -> None:
        admission = Admission(most=4)
        await enter(admission, Kind.TEST, Kind.TEST)
        third = asyncio.ensure_future(admission.enter(Kind.TEST))
        await enter(admission, Kind.AGENT)
        agent = asyncio.ensure_future(admission.enter(Kind.AGENT))
        [grade] = await enter(admission, Kind.GRADE)
        another = asyncio.ensure_future(admission.enter(Kind.GRADE))
        await settle()
        assert [third.done(), agent.done(), another.done()] == [False] * 3
        grade.leave()
        await asyncio.wait_for(another, 10)

    async def test_a_place_is_free_when_the_removal_was_acknowledged(self) -> None:
        service = FakeService(slow=True)
        pool = service.pool(Admission(most=1))
        pool.give_back(await pool.take())
        second = asyncio.ensure_future(pool.take())
        await settle()
        assert len(service.made) == 1
        service.made[0].end()
        await asyncio.wait_for(second, 10)

    async def test_what_was_started_ahead_goes_when_somebody_waits(self) -> None:
        service, admission = FakeService(), Admission(most=3)
        tests, grades = service.pool(admission, Kind.TEST), service.pool(admission)
        await tests.prepare([{"tags": ["later"]}])
        await enter(admission, Kind.GRADE, Kind.GRADE)
        await asyncio.wait_for(grades.take(), 10)
        assert service.alive == 1
        assert not service.made[0].alive

    async def test_what_was_on_a_loop_that_has_ended_fails_nobody(self) -> None:
        service, admission = FakeService(), Admission(most=1)

        async def start_ahead() -> None:
            await service.pool(admission).prepare([{}])
            await settle()

        await asyncio.to_thread(lambda: asyncio.run(start_ahead()))
        waiting = asyncio.ensure_future(admission.enter(Kind.GRADE))
        await settle()
        assert not waiting.done()
        service.made[0].end()
        waiting.cancel()

    async def test_nothing_is_started_ahead_while_somebody_waits(self) -> None:
        service, admission = FakeService(), Admission(most=3)
        await enter(admission, Kind.TEST)
        waiting = asyncio.ensure_future(admission.enter(Kind.TEST))
        await settle()
        await service.pool(admission).prepare([{}])
        assert not service.made
        waiting.cancel()

    async def test_one_who_gives_up_waiting_takes_no_place(self) -> None:
        admission = Admission(most=1)
        [place] = await enter(admission, Kind.GRADE)
        waiting = asyncio.ensure_future(admission.enter(Kind.GRADE))
        await settle()
        waiting.cancel()
        place.leave()
        await settle()
        await enter(admission, Kind.GRADE)


class TestAServiceWithoutRoom:
    async def test_refusals_lower_the_limit_and_cost_nothing(self) -> None:
        service, admission = FakeService(capacity=4), Admission()
        await asyncio.gather(*(use(service.pool(admission)) for _ in range(40)))
        reached = admission.reached()
        assert (reached.started, reached.again) == (40, 0)
        assert service.highest <= 4
        assert reached.refused >= reached.lowered >= 1
        assert admission.limit is not None

    async def test_those_that_are_refused_together_lower_it_once(self) -> None:
        admission = Admission()
        places = await enter(admission, *[Kind.GRADE] * 16)
        for place in places[8:]:
            place.refused()
            place.leave()
        assert admission.limit == 8

    async def test_as_many_successes_as_it_allows_raise_it_by_one(self) -> None:
        admission = Admission()
        places = await enter(admission, *[Kind.GRADE] * 4)
        places[0].refused()
        for place in places:
            place.leave()
        assert admission.limit == 2
        for _ in range(2):
            [place] = await enter(admission, Kind.GRADE)
            place.started()
            place.leave()
        assert admission.limit == 3

    async def test_every_kind_may_have_one_whatever_the_limit(self) -> None:
        admission = Admission()
        [place] = await enter(admission, Kind.TEST)
        place.refused()
        assert admission.limit == 1
        await enter(admission, Kind.AGENT, Kind.GRADE)

    async def test_one_that_refuses_for_long_has_failed(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(pool_module, "REFUSED_SECONDS", 0.05)
        admission = Admission()
        with pytest.raises(InfrastructureError, match=r"had no room for .*full"):
            await FakeService(capacity=0).pool(admission).take()
        assert admission.reached().refused > 1


class TestStartedAhead:
    async def test_it_is_taken_by_whoever_asks_for_the_same_options(self) -> None:
        service = FakeService()
        pool = service.pool(Admission())
        await pool.prepare([{"tags": ["a"]}, {"tags": ["b"]}])
        await settle()
        taken = [await pool.take({"tags": [tag]}) for tag in ("b", "c")]
        assert [*map(id, taken)] == [*map(id, service.made[1:])]

    @pytest.mark.parametrize("kind", [Kind.TEST, Kind.GRADE])
    async def test_one_that_died_is_replaced_also_without_retries(self, kind: Kind) -> None:
        service = FakeService()
        pool = service.pool(admission := Admission(), kind)
        await pool.prepare([{}])
        await settle()
        service.made[0].end()
        assert id(await pool.take()) == id(service.made[1])
        assert admission.reached().again == 1

    async def test_one_whose_taker_gives_up_while_it_is_looked_at_is_removed(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        looked_at, gone = threading.Event(), threading.Event()

        def look(_: FakeSandbox) -> SandboxStatus:
            looked_at.set()
            gone.wait(30)
            return SandboxStatus.RUNNING

        monkeypatch.setattr(FakeSandbox, "get_status", look)
        service = FakeService()
        pool = service.pool(Admission(), Kind.TEST)
        await pool.prepare([{}])
        await settle()
        taking = asyncio.ensure_future(pool.take())
        await asyncio.to_thread(looked_at.wait, 30)
        taking.cancel()
        await asyncio.wait((taking,))
        gone.set()
        assert service.alive == 0

    async def test_what_is_no_longer_wanted_is_removed(self) -> None:
        service = FakeService()
        pool = service.pool(Admission())
        await pool.prepare([{"tags": ["a"]}])
        await settle()
        await pool.prepare([{"tags": ["b"]}])
        await settle()
        assert [sandbox.alive for sandbox in service.made] == [False, True]
        await pool.close()
        await settle()
        assert service.alive == 0

    async def test_one_that_has_not_begun_leaves_its_place(self) -> None:
        service, admission = FakeService(), Admission(most=3)
        pool = service.pool(admission)
        await pool.prepare([{}, {}, {}])
        await pool.prepare([])
        await settle()
        assert not service.made
        await enter(admission, Kind.GRADE, Kind.GRADE, Kind.GRADE)


async def test_the_mean_is_over_the_time_in_which_there_was_one() -> None:
    admission = Admission()
    for _ in range(2):
        [place] = await enter(admission, Kind.GRADE)
        place.started()
        await asyncio.sleep(0.05)
        place.leave()
        await asyncio.sleep(0.1)
    reached = admission.reached()
    assert (reached.started, reached.highest, reached.mean) == (2, 1, 1.0)


async def test_a_sandbox_that_comes_when_nobody_waits_any_more_is_given_back(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    there, given_up = threading.Event(), threading.Event()
    busy = Place.busy

    def hold_up(place: Place) -> None:  # the loop's last step on the way to whoever waits
        busy(place)
        there.set()
        given_up.wait(30)

    monkeypatch.setattr(Place, "busy", hold_up)
    service = FakeService()
    sandboxes = Sandboxes(cast("Session", service), retries=0)
    starting = sandboxes.start(request.node)
    await asyncio.to_thread(there.wait, 30)
    assert starting.cancel()
    given_up.set()
    await asyncio.to_thread(sandboxes.close)
    assert (len(service.made), service.alive) == (1, 0)


async def test_who_has_waited_long_for_what_the_service_can_take_asks_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pytest_cwsandbox.admission.PATIENCE_SECONDS", 0.05)
    admission = Admission()
    held = await admission.enter(Kind.AGENT)
    held.refused()
    assert admission.limit == 1
    assert await asyncio.wait_for(admission.enter(Kind.AGENT), 30) is not held
