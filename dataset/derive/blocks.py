"""A KV block allocator with prefix sharing, as vLLM V1 has one: reference counts, and a queue of free blocks.

Free blocks are taken from the queue's front and come back at its end, the tail of a sequence first. A free block keeps
the content it was named for until it is taken for something else, so a later sequence with the same prefix revives it.
Block 0 is never handed out: engines keep it for padding.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence

Key = tuple[object, int]
"""What a block holds: whose tokens, and which block of them. Equal keys mean equal tokens and equal prefixes."""


class PoolExhausted(Exception):
    """Fewer free blocks than asked for; nothing was allocated."""


class BlockPool:
    """Block ids 1 .. `capacity`, each holding `block_size` tokens."""

    def __init__(self, capacity: int, block_size: int = 16) -> None:
        self.capacity = capacity
        self.block_size = block_size
        self._owners = [0] * (capacity + 1)
        self._free: OrderedDict[int, None] = OrderedDict.fromkeys(range(1, capacity + 1))
        self._block_of: dict[Key, int] = {}
        self._key_of: dict[int, Key] = {}

    @property
    def free_blocks(self) -> int:
        return len(self._free)

    def owners(self, block: int) -> int:
        """How many sequences use the block."""
        return self._owners[block]

    def blocks_for(self, tokens: int) -> int:
        return -(-tokens // self.block_size)

    def find(self, keys: Iterable[Key]) -> list[int]:
        """The blocks that hold the longest run of `keys` from the first on; none of them is taken yet."""
        found: list[int] = []
        for key in keys:
            block = self._block_of.get(key)
            if block is None:
                break
            found.append(block)
        return found

    def idle(self, blocks: Iterable[int]) -> int:
        """How many of these nobody uses: sharing them takes them from the free ones."""
        return sum(self._owners[block] == 0 for block in blocks)

    def share(self, blocks: Sequence[int]) -> None:
        """One owner more for blocks that `find` gave."""
        for block in blocks:
            if self._owners[block] == 0:
                del self._free[block]
            self._owners[block] += 1

    def allocate(self, count: int) -> list[int]:
        """`count` blocks with one owner each, the longest free ones first; what they held is forgotten."""
        if count > len(self._free):
            raise PoolExhausted(f"{count} blocks asked, {len(self._free)} of {self.capacity} free")
        taken = [self._free.popitem(last=False)[0] for _ in range(count)]
        for block in taken:
            self._owners[block] = 1
            key = self._key_of.pop(block, None)
            if key is not None:
                del self._block_of[key]
        return taken

    def name(self, block: int, key: Key) -> None:
        """The block now holds what `key` stands for. Of two blocks with one content the first stays the known one."""
        if key not in self._block_of and block not in self._key_of:
            self._block_of[key] = block
            self._key_of[block] = key

    def release(self, blocks: Sequence[int]) -> None:
        """One owner less; blocks without one are free, the last of a sequence to be taken first."""
        for block in reversed(blocks):
            self._owners[block] -= 1
            if self._owners[block] == 0:
                self._free[block] = None
