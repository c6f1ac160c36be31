"""A reading that another node forwards, as far as it is believed."""

from __future__ import annotations

from fumarole.exchange.readings import Reading, ReadingError, check_identity, check_metadata, check_number
from fumarole.protocols.cluster_protocol import Spoken
from fumarole.protocols.msgpack import unpack
from fumarole.protocols.stream import Fault


def checked(said: Spoken) -> Reading:
    """The reading, held to what a client here is held to (A9). Raises ReadingError.

    Its bytes go on to clients of the MsgPack door as they are, so they must say the same as the rest.
    """
    producer = check_identity(said.producer)
    value = said.value if isinstance(said.value, str) else check_number(said.value)
    metadata = check_metadata(said.metadata)
    if said.raw:
        try:
            raw = unpack(said.raw)
        except Fault:
            raw = None
        if raw != [producer, metadata, value]:
            raise ReadingError("the bytes of the reading say something else than the reading")
    return Reading(producer, metadata, value, said.raw)
