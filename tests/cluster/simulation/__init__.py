"""A cluster in one process: the real pure parts, on a network, clocks and faults that a seed decides.

Every node has a real `Cluster`, real exchanges and (by the seed) the compiled or the plain loops; what is simulated is what
is below: connections are ordered and lose nothing while they last, bytes take a while, come in pieces, wait while the way is
cut, and are gone when either end resets. Clocks of nodes have nothing to do with each other.

Clients are simulated too, and write down everything: what was published when and where, what was confirmed, what arrived.
`World.faults` then says what must not have happened.

| what | where |
|---|---|
| time, chance, the network, a schedule from its beginning to its end | world.py |
| a machine with its node, and the ends of its connections | hosts.py |
| consumers, and what clients do at random | clients.py |
| pauses, crashes, cuts, slow lines, resets | faults.py |
| the invariants | checks.py |
"""

from tests.cluster.simulation.world import World

__all__ = ["World"]
