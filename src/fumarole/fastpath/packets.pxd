# cython: language_level=3, cdivision=True
"""MQTT's PUBLISH as it leaves: what sessions/mqtt_outlet.py sends of a message at QoS 0 or 1 that has no reply.

    30 │ remaining length │ 00 0e volcanoes/usa/… │ (version 5: length, identifiers, properties) │ 21.5
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.string cimport memcpy

from fumarole.fastpath.outbox cimport Consumer, Outbox
from fumarole.fastpath.plans cimport fumarole_strict
from fumarole.fastpath.texts cimport Slice

cdef extern from *:
    """
    #define PUBLISH 0x30
    #define RETAIN 0x01
    #define VERSION_5 5
    #define BESIDES 14              /* mqtt_forms.BESIDES */
    #define LONGEST_TOPIC 1024      /* bytes of one that is written here */
    """
    const int PUBLISH, RETAIN, VERSION_5
    const Py_ssize_t BESIDES, LONGEST_TOPIC


cdef inline Py_ssize_t width(Py_ssize_t number) noexcept:
    """Bytes of a variable byte integer."""
    return 1 if number < 0x80 else 2 if number < 0x4000 else 3 if number < 0x200000 else 4


cdef inline char* write_variable(char* place, Py_ssize_t number) noexcept:
    while number >= 0x80:
        place[0] = <char>(number & 0x7F | 0x80)
        place += 1
        number >>= 7
    place[0] = <char>number
    return place + 1


cdef inline char* write_two(char* place, Py_ssize_t number) noexcept:
    place[0] = <char>(number >> 8)
    place[1] = <char>(number & 0xFF)
    return place + 2


cdef inline char* write(char* place, const char* data, Py_ssize_t length) noexcept:
    if length:  # what is empty may have no place: memcpy must not be told of it
        memcpy(place, data, length)
    return place + length


cdef inline bint is_plain(const char* topic, Py_ssize_t length) noexcept:
    """Is it the same as an MQTT topic, but for its separators? (core/mqtt_topics.py)"""
    cdef Py_ssize_t at
    if not 0 < length <= LONGEST_TOPIC:
        return False
    for at in range(length):
        if not fumarole_strict[<unsigned char>topic[at]]:
            return False
    return True


cdef inline Py_ssize_t packet_size(
    bytes key, int version, Py_ssize_t topic, Py_ssize_t properties, Py_ssize_t payload
) noexcept:
    """As mqtt_forms.Form.size has it."""
    cdef Py_ssize_t size = BESIDES + 2 + topic + payload
    if version == VERSION_5:
        size += PyBytes_GET_SIZE(key) - 1 + properties
    return size


cdef inline bint write_packet(
    Consumer consumer, Outbox outbox, int version, Slice topic, Slice properties, Slice payload,
    Py_ssize_t packet_id=0, int flags=0
) except -1:
    """One message to one consumer; its topic is plain. With a packet identifier it is of QoS 1, and is not dropped any more."""
    cdef bytes key = consumer.key
    cdef Py_ssize_t identifiers = 0, given = 0, length = 2 + topic.length + payload.length, at
    cdef char* place
    if version == VERSION_5:
        identifiers = PyBytes_GET_SIZE(key) - 1  # what precedes them are the options of the filter
        given = identifiers + properties.length
        length += width(given) + given
    if packet_id:
        length += 2
        flags |= 0x02
    consumer.accepted += 1
    place = outbox.reserve(1 + width(length) + length, None if packet_id else consumer)
    if place == NULL:
        return True
    place[0] = <char>(PUBLISH | flags)
    place = write_variable(place + 1, length)
    place = write_two(place, topic.length)
    for at in range(topic.length):
        place[at] = topic.at[at] if topic.at[at] != c"." else c"/"
    place += topic.length
    if packet_id:
        place = write_two(place, packet_id)
    if version == VERSION_5:
        place = write_variable(place, given)
        place = write(place, PyBytes_AS_STRING(key) + 1, identifiers)
        place = write(place, properties.at, properties.length)
    write(place, payload.at, payload.length)
    return True


cdef inline bint send_packet(
    Consumer consumer, int qos, Slice topic, Slice properties, Slice payload
) except -1:
    """The same, where that can be done here. False: its outlet has to do it."""
    cdef Py_ssize_t packet_id = 0, size
    size = packet_size(consumer.key, consumer.version, topic.length, properties.length, payload.length)
    if consumer.packets.late or size > consumer.largest:
        return False
    if qos:
        packet_id = consumer.outlet.begin(size)
        if packet_id == 0:
            return False
    return write_packet(
        consumer, consumer.packets, consumer.version, topic, properties, payload, packet_id
    )
