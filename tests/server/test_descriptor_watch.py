from __future__ import annotations

import os
import resource

from fumarole.core.limits import Limits
from fumarole.exchange.node import Node
from fumarole.server.descriptor_watch import DescriptorWatch, is_one_left


def test_a_lack_is_told() -> None:
    left, said = [True], list[str]()
    node = Node("n", "0", Limits())
    DescriptorWatch(node, lambda: left[0], lambda text, *given: said.append(text % given))
    node.tick(1.0)
    assert said == []
    left[0] = False
    node.tick(2.0)
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert said[0].startswith(f"no file descriptors are left, of {most}: new connections are closed.")


def test_looking_for_one_leaves_none_open() -> None:
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names are enough
    assert all(is_one_left() for _ in range(10))
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))), hard))  # noqa: PTH208
    taken: list[int] = []
    try:
        while True:
            taken.append(os.dup(0))
    except OSError:
        assert not is_one_left()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for each in taken:
            os.close(each)
    assert is_one_left()
