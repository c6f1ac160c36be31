"""The package reaches workers whose Python lacks it (P9). `test_connect.py` has the same of Connect servers."""

import asyncio
import sys
from pathlib import Path

import pytest

import fumarole
from tests.integration.running import RunningBroker
from tests.pipeline.jobs.test_cluster import cluster
from tests.pipeline.pythons import python_without_fumarole, with_workers

PROGRAM = Path(__file__).with_name("published.py")


@pytest.mark.timeout(400)
async def test_workers_that_lack_the_package(tmp_path: Path) -> None:
    python = python_without_fumarole(tmp_path)
    broker = RunningBroker(tmp_path)
    try:
        with cluster(tmp_path) as here:
            async with fumarole.connect(broker.url) as client:
                messages = await client.subscribe("shipped.>")
                job = await asyncio.create_subprocess_exec(
                    sys.executable,
                    PROGRAM,
                    here.url,
                    broker.url,
                    env=with_workers(python),
                    stderr=asyncio.subprocess.PIPE,
                )
                _, errors = await job.communicate()
                assert job.returncode == 0, errors.decode()
                heard = {(await anext(messages)).payload for _ in range(10)}
        assert heard == {str(number).encode() for number in range(10)}
    finally:
        broker.release()
