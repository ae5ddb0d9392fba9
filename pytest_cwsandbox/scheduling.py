"""Queues deep enough for workers that run ahead, in xdist's load mode."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdist.scheduler import LoadScheduling

from pytest_cwsandbox.shares import Share

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest
    from xdist.remote import Producer
    from xdist.workermanage import WorkerController


class DeepScheduling(LoadScheduling):  # type: ignore[misc]  # xdist ships no types
    """Keeps as many items queued in a worker as it can have under way, and as many again.

    xdist's own keeps two slow tests queued, of which only one is left to start early. Towards the
    end no worker gets more than it can start at once, and what is left is divided by what each can
    have under way.

    What a worker had under way when it died is suspect: only workers that run tests in order get
    it, first of all its replacement. There the item that kills its process does so alone.
    ``replaced`` says whether a worker that has just died gets a replacement.
    """

    def __init__(self, config: pytest.Config, log: Producer, replaced: Callable[[], bool]) -> None:
        super().__init__(config, log)
        self._replaced = replaced
        self._suspects: set[int] = set()

    def schedule(self) -> None:
        super().schedule()
        for node in self.nodes:
            self.check_schedule(node)

    def check_schedule(self, node: WorkerController, duration: float = 0) -> None:
        del duration  # how long a test takes says nothing of how many run at once
        if self.collection is None or node.shutting_down:
            return
        ways = in_flight(node)
        queued = len(self.node2pending[node])
        room = self._depth(node) - queued
        # Not one by one: a message costs more than an empty test.
        if room > 0 and (queued <= ways + 1 or room > ways // 2):
            self._send_tests(node, min(room, max(2 - queued, self.maxschedchunk)))
        if not self.pending:
            for each in self.nodes:  # a worker runs its last item once it knows that it is
                if not each.shutting_down:
                    each.shutdown()
        elif ways > 1 and self._suspects.issuperset(self.pending):
            node.shutdown()  # nothing is left that it may run

    def _depth(self, node: WorkerController) -> int:
        """How many items the node shall have queued."""
        ways = {each: in_flight(each) for each in self.nodes if not each.shutting_down}
        own = ways[node]
        left = len(self.pending) + sum(len(self.node2pending[each]) for each in ways)
        fair = -(-left * own // sum(ways.values()))
        # xdist's workers run none but the last item without knowing the next.
        return max(2, min(2 * own + 2, fair, max(own + 1, fair // 2)))

    def _send_tests(self, node: WorkerController, num: int) -> None:
        if self._suspects:
            ahead = in_flight(node) > 1
            self.pending.sort(key=lambda index: (index in self._suspects) is ahead)
            if ahead:
                num = min(num, sum(index not in self._suspects for index in self.pending))
        sent = self.pending[:num]
        try:
            super()._send_tests(node, num)
        except OSError:  # it has just died: nothing has reached it, and xdist is yet to be told
            del self.node2pending[node][-len(sent) :]
            self.pending[:0] = sent

    def remove_node(self, node: WorkerController) -> str | None:
        if in_flight(node) > 1 and self._replaced():
            self._suspects.update(self.node2pending.get(node, ())[: in_flight(node) + 1])
        crashed: str | None = super().remove_node(node)
        return crashed


def in_flight(node: WorkerController) -> int:
    """How many items the worker may have under way."""
    return Share.from_controller(node.workerinput).in_flight
