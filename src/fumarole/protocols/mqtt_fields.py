"""The fields that MQTT packets are made of: numbers, texts, and the properties of version 5.

    two bytes        00 0a                      10
    variable         80 01                      128, seven bits in a byte, the lowest first
    text             00 03 61 2f 62             a/b, its length first
    properties       03  23 00 05               their length, then each with its number: Topic Alias 5

What is longer than its packet, no UTF-8, or a property where it has no place is refused with the reason code that
version 5 has for it.
"""

from collections.abc import Mapping
from enum import IntEnum
from struct import Struct
from typing import Any, Final

from fumarole.protocols.mqtt_reasons import Reason
from fumarole.protocols.stream import Fault

MOST_PROPERTIES: Final = 64 * 1024
"""Bytes of the properties of one packet. A property may take five bytes, and each of them is looked at."""
LONGEST_TEXT: Final = 0xFFFF
LARGEST_VARIABLE: Final = 268_435_455

_TWO = Struct(">H")
_FOUR = Struct(">I")


class PacketFault(Fault):
    """A packet that the protocol does not allow."""

    def __init__(self, reason: Reason, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class Packet(IntEnum):
    """The types of packets, as in the upper half of their first byte."""

    CONNECT = 1
    CONNACK = 2
    PUBLISH = 3
    PUBACK = 4
    PUBREC = 5
    PUBREL = 6
    PUBCOMP = 7
    SUBSCRIBE = 8
    SUBACK = 9
    UNSUBSCRIBE = 10
    UNSUBACK = 11
    PINGREQ = 12
    PINGRESP = 13
    DISCONNECT = 14
    AUTH = 15
    WILL = 16
    """No packet: the properties of a will, inside CONNECT."""


class Property(IntEnum):
    """The properties of version 5, by their numbers."""

    PAYLOAD_FORMAT = 0x01
    MESSAGE_EXPIRY = 0x02
    CONTENT_TYPE = 0x03
    RESPONSE_TOPIC = 0x08
    CORRELATION_DATA = 0x09
    SUBSCRIPTION_IDENTIFIER = 0x0B
    SESSION_EXPIRY = 0x11
    ASSIGNED_CLIENT_ID = 0x12
    SERVER_KEEP_ALIVE = 0x13
    AUTHENTICATION_METHOD = 0x15
    AUTHENTICATION_DATA = 0x16
    REQUEST_PROBLEM_INFORMATION = 0x17
    WILL_DELAY = 0x18
    REQUEST_RESPONSE_INFORMATION = 0x19
    RESPONSE_INFORMATION = 0x1A
    SERVER_REFERENCE = 0x1C
    REASON_STRING = 0x1F
    RECEIVE_MAXIMUM = 0x21
    TOPIC_ALIAS_MAXIMUM = 0x22
    TOPIC_ALIAS = 0x23
    MAXIMUM_QOS = 0x24
    RETAIN_AVAILABLE = 0x25
    USER = 0x26
    MAXIMUM_PACKET_SIZE = 0x27
    WILDCARD_AVAILABLE = 0x28
    IDENTIFIERS_AVAILABLE = 0x29
    SHARED_AVAILABLE = 0x2A


class Kind(IntEnum):
    """How a property's value is written."""

    BYTE = 0
    FLAG = 1
    TWO = 2
    TWO_NOT_ZERO = 3
    FOUR = 4
    FOUR_NOT_ZERO = 5
    VARIABLE = 6
    TEXT = 7
    BINARY = 8
    PAIR = 9


Properties = Mapping[int, Any]
"""By number. User properties are a list of pairs, subscription identifiers a list of numbers."""
NONE: Final[Properties] = {}

_P, _K = Property, Kind
_MESSAGE = (Packet.PUBLISH, Packet.WILL)
_ANSWERS = (
    Packet.CONNACK,
    Packet.PUBACK,
    Packet.PUBREC,
    Packet.PUBREL,
    Packet.PUBCOMP,
    Packet.SUBACK,
    Packet.UNSUBACK,
    Packet.DISCONNECT,
    Packet.AUTH,
)
_LOGIN = (Packet.CONNECT, Packet.CONNACK, Packet.AUTH)
_ENDS = (Packet.CONNECT, Packet.CONNACK)

ALLOWED: Final[Mapping[int, tuple[Kind, tuple[Packet, ...]]]] = {
    _P.PAYLOAD_FORMAT: (_K.FLAG, _MESSAGE),
    _P.MESSAGE_EXPIRY: (_K.FOUR, _MESSAGE),
    _P.CONTENT_TYPE: (_K.TEXT, _MESSAGE),
    _P.RESPONSE_TOPIC: (_K.TEXT, _MESSAGE),
    _P.CORRELATION_DATA: (_K.BINARY, _MESSAGE),
    _P.SUBSCRIPTION_IDENTIFIER: (_K.VARIABLE, (Packet.PUBLISH, Packet.SUBSCRIBE)),
    _P.SESSION_EXPIRY: (_K.FOUR, (*_ENDS, Packet.DISCONNECT)),
    _P.ASSIGNED_CLIENT_ID: (_K.TEXT, (Packet.CONNACK,)),
    _P.SERVER_KEEP_ALIVE: (_K.TWO, (Packet.CONNACK,)),
    _P.AUTHENTICATION_METHOD: (_K.TEXT, _LOGIN),
    _P.AUTHENTICATION_DATA: (_K.BINARY, _LOGIN),
    _P.REQUEST_PROBLEM_INFORMATION: (_K.FLAG, (Packet.CONNECT,)),
    _P.WILL_DELAY: (_K.FOUR, (Packet.WILL,)),
    _P.REQUEST_RESPONSE_INFORMATION: (_K.FLAG, (Packet.CONNECT,)),
    _P.RESPONSE_INFORMATION: (_K.TEXT, (Packet.CONNACK,)),
    _P.SERVER_REFERENCE: (_K.TEXT, (Packet.CONNACK, Packet.DISCONNECT)),
    _P.REASON_STRING: (_K.TEXT, _ANSWERS),
    _P.RECEIVE_MAXIMUM: (_K.TWO_NOT_ZERO, _ENDS),
    _P.TOPIC_ALIAS_MAXIMUM: (_K.TWO, _ENDS),
    _P.TOPIC_ALIAS: (_K.TWO, (Packet.PUBLISH,)),
    _P.MAXIMUM_QOS: (_K.FLAG, (Packet.CONNACK,)),
    _P.RETAIN_AVAILABLE: (_K.FLAG, (Packet.CONNACK,)),
    _P.USER: (
        _K.PAIR,
        (*_MESSAGE, *_ANSWERS, Packet.CONNECT, Packet.SUBSCRIBE, Packet.UNSUBSCRIBE),
    ),
    _P.MAXIMUM_PACKET_SIZE: (_K.FOUR_NOT_ZERO, _ENDS),
    _P.WILDCARD_AVAILABLE: (_K.FLAG, (Packet.CONNACK,)),
    _P.IDENTIFIERS_AVAILABLE: (_K.FLAG, (Packet.CONNACK,)),
    _P.SHARED_AVAILABLE: (_K.FLAG, (Packet.CONNACK,)),
}
"""How the value of each property is written, and in which packets it may stand."""


class Fields:
    """The fields of one packet, one after the other. What goes beyond its end is malformed."""

    __slots__ = ("_data", "at", "end")

    def __init__(self, data: bytes, at: int, end: int) -> None:
        self._data = data
        self.at = at
        self.end = end

    def __bool__(self) -> bool:
        """Is there any left?"""
        return self.at < self.end

    def _take(self, size: int) -> int:
        at = self.at
        self.at = at + size
        if self.at > self.end:
            raise PacketFault(Reason.MALFORMED, "a field is longer than its packet")
        return at

    def byte(self) -> int:
        return self._data[self._take(1)]

    def two(self) -> int:
        number: int = _TWO.unpack_from(self._data, self._take(2))[0]
        return number

    def four(self) -> int:
        number: int = _FOUR.unpack_from(self._data, self._take(4))[0]
        return number

    def variable(self) -> int:
        number = shift = 0
        while True:
            byte = self.byte()
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
            shift += 7
            if shift > 21:
                raise PacketFault(Reason.MALFORMED, "a variable byte integer has more than four bytes")

    def binary(self) -> bytes:
        size = self.two()
        at = self._take(size)
        return self._data[at : at + size]

    def text(self) -> str:
        try:
            text = self.binary().decode()
        except UnicodeDecodeError:
            raise PacketFault(Reason.MALFORMED, "a text is not UTF-8") from None
        if "\0" in text:
            raise PacketFault(Reason.MALFORMED, "a text has U+0000 in it")
        return text

    def packet_id(self) -> int:
        number = self.two()
        if number == 0:
            raise PacketFault(Reason.PROTOCOL_ERROR, "a packet identifier is 0")
        return number

    def rest(self) -> bytes:
        """All that is left."""
        at, self.at = self.at, self.end
        return self._data[at : self.end]

    def finish(self) -> None:
        """The packet must end here."""
        if self.at < self.end:
            raise PacketFault(Reason.MALFORMED, "a packet is longer than its fields")

    def properties(self, packet: Packet) -> Properties:
        """The properties of a packet of this type. Each but user properties may stand there once."""
        size = self.variable()
        if size == 0:
            return NONE
        if size > MOST_PROPERTIES:
            raise PacketFault(Reason.TOO_LARGE, f"the properties of a packet have at most {MOST_PROPERTIES} bytes")
        beyond, self.end = self.end, self._take(size) + size
        self.at = self.end - size
        found: dict[int, Any] = {}
        while self.at < self.end:
            self._property(packet, found)
        self.end = beyond
        return found

    def _property(self, packet: Packet, found: dict[int, Any]) -> None:
        number = self.variable()
        kind, packets = ALLOWED.get(number, (None, ()))
        if kind is None:
            raise PacketFault(Reason.MALFORMED, f"there is no property {number:#04x}")
        if packet not in packets:
            raise PacketFault(Reason.PROTOCOL_ERROR, f"property {number:#04x} has no place in {_shown(packet)}")
        value = self._value(kind)
        if number == Property.RESPONSE_TOPIC and ("+" in value or "#" in value):
            raise PacketFault(Reason.PROTOCOL_ERROR, "a response topic has no wildcards")
        if kind is Kind.PAIR or (number == Property.SUBSCRIPTION_IDENTIFIER and packet is Packet.PUBLISH):
            found.setdefault(number, []).append(value)
            return
        if number in found:
            raise PacketFault(Reason.PROTOCOL_ERROR, f"property {number:#04x} stands twice in {_shown(packet)}")
        if number == Property.SUBSCRIPTION_IDENTIFIER:
            if value == 0:
                raise PacketFault(Reason.PROTOCOL_ERROR, "a subscription identifier is 0")
            value = [value]
        found[number] = value

    def _value(self, kind: Kind) -> Any:
        if kind is Kind.PAIR:
            return self.text(), self.text()
        value: Any = _READ[kind](self)
        if kind is Kind.FLAG and value > 1:
            raise PacketFault(Reason.PROTOCOL_ERROR, "a property that is 0 or 1 is neither")
        if value == 0 and kind in (Kind.TWO_NOT_ZERO, Kind.FOUR_NOT_ZERO):
            raise PacketFault(Reason.PROTOCOL_ERROR, "a property is 0 that may not be")
        return value


def _shown(packet: Packet) -> str:
    return "a will" if packet is Packet.WILL else packet.name


_READ: Final = {
    Kind.BYTE: Fields.byte,
    Kind.FLAG: Fields.byte,
    Kind.TWO: Fields.two,
    Kind.TWO_NOT_ZERO: Fields.two,
    Kind.FOUR: Fields.four,
    Kind.FOUR_NOT_ZERO: Fields.four,
    Kind.VARIABLE: Fields.variable,
    Kind.TEXT: Fields.text,
    Kind.BINARY: Fields.binary,
}


def two(number: int) -> bytes:
    return _TWO.pack(number)


def variable(number: int) -> bytes:
    """Seven bits in a byte, the lowest first."""
    if number < 0x80:
        return bytes((number,))
    made = bytearray()
    while number >= 0x80:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)


def binary(data: bytes) -> bytes:
    return _TWO.pack(len(data)) + data


def text(value: str) -> bytes:
    return binary(value.encode())


def properties(values: Properties) -> bytes:
    """With their length before them."""
    made = pairs(values)
    return variable(len(made)) + made


def pairs(values: Properties) -> bytes:
    """The properties alone."""
    made = bytearray()
    for number, value in values.items():
        kind, _ = ALLOWED[number]
        for each in value if isinstance(value, list | tuple) else (value,):
            made.append(number)
            if kind is Kind.PAIR:
                made += text(each[0]) + text(each[1])
            elif kind in (Kind.BYTE, Kind.FLAG):
                made.append(each)
            elif kind in (Kind.TWO, Kind.TWO_NOT_ZERO):
                made += _TWO.pack(each)
            elif kind in (Kind.FOUR, Kind.FOUR_NOT_ZERO):
                made += _FOUR.pack(each)
            elif kind is Kind.VARIABLE:
                made += variable(each)
            elif kind is Kind.TEXT:
                made += text(each)
            else:
                made += binary(each)
    return bytes(made)
