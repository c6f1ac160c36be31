"""`fumarole demo`: a broker with simulated volcano sensors."""

from __future__ import annotations

from typing import Annotated

import typer

from fumarole.cli.command import command
from fumarole.cli.terminal import fail, finite, run


@command(
    "demo",
    panel="Broker",
    examples="""
        fumarole demo
        fumarole demo --port 4333 --rate 10000
        fumarole demo --nodes 3
    """,
)
def demo(
    port: Annotated[
        int, typer.Option(min=0, max=65535, metavar="PORT", help="The port of the broker; 0 is any free port.")
    ] = 4222,
    rate: Annotated[float, typer.Option(callback=finite, min=1, metavar="N", help="Readings a second.")] = 2000,
    nodes: Annotated[
        int, typer.Option(min=1, max=9, metavar="N", help="Number of brokers, on that port and the ports after it.")
    ] = 1,
    browser: Annotated[bool, typer.Option(help="On a desktop, open the console in the browser.")] = True,
) -> None:
    """Start a broker with simulated volcano sensors, a consumer and a group of two, and watch them."""
    from fumarole.demo.broker import DemoError, demo_broker
    from fumarole.demo.demo import demonstrate

    try:
        if nodes > 1:
            from fumarole.demo.cluster import demo_cluster

            with demo_cluster(nodes, port) as cluster:
                run(demonstrate(cluster.urls()[0], rate, cluster, opens_browser=browser), interrupted=0)
        else:
            with demo_broker(port) as broker:
                run(demonstrate(broker.url, rate, web=broker.web, opens_browser=browser), interrupted=0)
    except DemoError as error:
        fail(str(error))
    except KeyboardInterrupt:
        raise typer.Exit from None
