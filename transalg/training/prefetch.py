"""The next batch is made while the model computes with this one."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")


def prefetched(items: Iterator[Item]) -> Iterator[Item]:
    """The same items in the same order, each made by another thread while the one before it is used; what that raises is raised here.

    >>> list(prefetched(iter("abc")))
    ['a', 'b', 'c']
    """
    end = object()
    with ThreadPoolExecutor(max_workers=1) as thread:
        following = thread.submit(next, items, end)
        while (item := following.result()) is not end:
            following = thread.submit(next, items, end)
            yield item  # type: ignore[misc]
