"""Reason codes of MQTT 5, and the return codes that MQTT 3.1.1 has in their place."""

from enum import IntEnum
from typing import Final


class Reason(IntEnum):
    """Why something was or was not done. From 0x80 on it was not."""

    SUCCESS = 0x00
    GRANTED_1 = 0x01
    GRANTED_2 = 0x02
    WITH_WILL = 0x04
    NO_MATCH = 0x10
    NO_SUBSCRIPTION = 0x11
    UNSPECIFIED = 0x80
    MALFORMED = 0x81
    PROTOCOL_ERROR = 0x82
    IMPLEMENTATION = 0x83
    VERSION = 0x84
    CLIENT_ID = 0x85
    BAD_LOGIN = 0x86
    NOT_AUTHORIZED = 0x87
    UNAVAILABLE = 0x88
    BUSY = 0x89
    SHUTTING_DOWN = 0x8B
    AUTHENTICATION_METHOD = 0x8C
    KEEP_ALIVE = 0x8D
    TAKEN_OVER = 0x8E
    FILTER = 0x8F
    TOPIC = 0x90
    PACKET_ID_IN_USE = 0x91
    PACKET_ID_UNKNOWN = 0x92
    RECEIVE_MAXIMUM = 0x93
    TOPIC_ALIAS = 0x94
    TOO_LARGE = 0x95
    QUOTA = 0x97
    PAYLOAD_FORMAT = 0x99
    NO_RETAIN = 0x9A
    NO_QOS = 0x9B
    ANOTHER_SERVER = 0x9C
    NO_SHARED = 0x9E
    NO_IDENTIFIERS = 0xA1
    NO_WILDCARDS = 0xA2


FAILURE: Final = 0x80
"""Reason codes from here on say that something was not done. In a SUBACK of 3.1.1 it is the only one."""

RETURN_CODES: Final = {
    Reason.SUCCESS: 0,
    Reason.VERSION: 1,
    Reason.CLIENT_ID: 2,
    Reason.UNAVAILABLE: 3,
    Reason.BUSY: 3,
    Reason.QUOTA: 3,
    Reason.BAD_LOGIN: 4,
    Reason.NOT_AUTHORIZED: 5,
}
"""What a CONNACK of 3.1.1 says. For other reasons the connection ends without one."""
