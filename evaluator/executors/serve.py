"""An owner's side of the pipe: hear the charge, say ready, follow order after order, one JSON line at a time.

Stdin is a line with the charge, then one order a line; its end means that nobody listens any more.
"""

from __future__ import annotations

import json
import os
import queue
import threading
from collections.abc import Callable, Iterator
from typing import TextIO

from kernelmill.evaluator.executors.base import Charge, Message, Seen, Unit
from kernelmill.evaluator.runner import Event
from kernelmill.trace_schema.errors import KernelMillError

Say = Callable[[Message], None]
Follow = Callable[[str, Unit], Iterator[Event]]
"""What an owner does with "build", before any clock runs anywhere on this host, and with "judge"."""


def serve(take: Callable[[Charge], tuple[Seen, Follow]]) -> None:
    """Never comes back once `take` has opened the device. The owner says so if it raises a KernelMillError."""
    lines, say = _channel()
    try:
        seen, follow = take(Charge.from_json(lines.readline()))
    except KernelMillError as error:
        say(Message("refused", str(error)))
        return
    say(Message("ready", seen=seen))
    orders: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(lines, orders), daemon=True).start()
    while True:
        order = json.loads(orders.get())
        for event in follow(order["do"], Unit.from_json(order["unit"])):
            say(Message("event", event=event))
        say(Message("done"))


def _channel() -> tuple[TextIO, Say]:
    """What were stdin and stdout. Whatever else reads finds nothing from now on, and whatever else prints, prints to
    stderr: a compiler must not take our orders, nor a library speak for us.
    """
    lines, out = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)

    def say(message: Message) -> None:
        out.write(message.to_json() + "\n")
        out.flush()

    return lines, say


def _listen(lines: TextIO, orders: queue.SimpleQueue[str]) -> None:
    """A blocked read costs a running clock nothing. Workers die with this process, and its device becomes free."""
    for line in lines:
        orders.put(line)
    os._exit(0)
