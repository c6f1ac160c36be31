"""A node that is gone is chosen no more, though this one has had no time to hear of it."""

from __future__ import annotations

import signal
import time
from pathlib import Path

from tests.integration.cluster.clients import Client
from tests.integration.cluster.nodes import running

MESSAGES = 200


def test_messages_that_waited_do_not_go_to_a_node_that_is_gone(tmp_path: Path) -> None:
    """They were in the socket before the other was killed, and are read before the end of its connection is."""
    with running(tmp_path, 3) as nodes:
        publisher, gone, member = (Client(node.host, node.port) for node in nodes.nodes)
        for client in (gone, member):
            client.say(b"SUB a g 1\r\n")
            client.flush()
        member.say(b"SUB end 2\r\n")
        member.flush()
        nodes[0].signal(signal.SIGSTOP)
        for _ in range(MESSAGES):
            publisher.say(b"PUB a 0\r\n\r\n")
        publisher.say(b"PUB end 0\r\n\r\n")
        nodes[1].kill()
        time.sleep(0.1)  # for the ends of its connections to arrive
        nodes[0].signal(signal.SIGCONT)
        heard = member.hear_until(b"MSG end 2 0\r\n\r\n")
        assert heard.count(b"MSG a 1 0") == MESSAGES
        for client in (publisher, gone, member):
            client.close()
