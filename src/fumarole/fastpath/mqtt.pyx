# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The hot loop of the MQTT door: PUBLISH of QoS 0 and 1, and PUBACK, from the read buffer to the outboxes, a whole buffer at a time.

It is the fused copy of protocols/mqtt.py (parsing), sessions/mqtt.py and sessions/mqtt_speaker.py (meaning) for the packet that comes
by the million, as fastpath/nats.pyx is for PUB, and shares with it all but the packets. Every other packet is handed whole to the
session: each kind but PUBLISH, QoS 2, the retain flag, properties other than a topic alias, topics that are written otherwise inside.

    30 09 00 03 a/b 21.5        version 3.1.1
    30 0a 00 03 a/b 00 21.5     version 5: no properties
    30 0a 00 00 03 23 00 01 …   the topic of alias 1, which the session has learned

Topics are looked up with their words separated by `.`, as the exchange has them. For consumers of other doors the message is written
once in the form of NATS (`tail`), and that is copied.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItem
from cpython.ref cimport PyObject
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.string cimport memcmp, memcpy

from fumarole.fastpath.nats cimport (
    INCOMPLETE, ODD, WORK_AT_ONCE, WORK_OF_A_HAND_OVER, WORK_OF_THE_SESSION, NatsReader, Operation
)
from fumarole.fastpath.outbox cimport Consumer, Outbox
from fumarole.fastpath.packets cimport LONGEST_TOPIC, RETAIN, VERSION_5, is_plain, packet_size, send_packet, write_packet
from fumarole.fastpath.plans cimport Plan, fumarole_strict
from fumarole.fastpath.texts cimport Slice

from fumarole.core.publication import Publication
from fumarole.exchange.readings import Reading, reading_value
from fumarole.protocols.mqtt_fields import pairs
from fumarole.protocols.mqtt_reasons import Reason
from fumarole.sessions.mqtt_forms import BESIDES as PURE_BESIDES, block_of, properties_of, reading_headers
from fumarole.sessions.mqtt_outlet import NO_LOCAL as PURE_NO_LOCAL, QOS as PURE_QOS
from fumarole.sessions.stream import State

cdef object CLOSED = State.CLOSED
cdef int NO_LOCAL = PURE_NO_LOCAL, QOS = PURE_QOS
cdef bytes NO_MATCH = bytes((Reason.NO_MATCH,))

cdef extern from *:
    """
    #define LONGEST_PAYLOAD 32768       /* a longer one is handed over: what is copied here stays in the cache */
    #define LONGEST_TAIL (LONGEST_PAYLOAD + 512)
    #define PACKET_HEADER 5             /* bytes of the longest: type, remaining length */
    #define MALFORMED -2
    #define WORK_OF_AN_ANSWER 3
    #define ALIAS_PROPERTY 0x23
    """
    const Py_ssize_t LONGEST_PAYLOAD, LONGEST_TAIL, PACKET_HEADER, MALFORMED, WORK_OF_AN_ANSWER
    const unsigned char ALIAS_PROPERTY

assert PURE_BESIDES == 14
assert Reason.SUCCESS == 0


# Of the message that is published just now. There is one at a time, and a connection should not take so much memory.
cdef char[LONGEST_TOPIC] topic_made
cdef char[LONGEST_TAIL] tail_made


cdef inline Py_ssize_t packet_length(const unsigned char* at, const unsigned char* end) noexcept:
    """Bytes of the packet that begins here, INCOMPLETE, or MALFORMED."""
    cdef Py_ssize_t size = 0, place
    for place in range(1, PACKET_HEADER):
        if at + place >= end:
            return INCOMPLETE
        size |= <Py_ssize_t>(at[place] & 0x7F) << 7 * (place - 1)
        if at[place] < 0x80:
            return size + place + 1
    return MALFORMED


cdef inline Py_ssize_t two(const unsigned char* at) noexcept:
    return <Py_ssize_t>at[0] << 8 | at[1]


cdef inline char* write_number(char* place, Py_ssize_t number) noexcept:
    """In decimal digits."""
    cdef char digits[20]
    cdef Py_ssize_t count = 0
    while True:
        digits[count] = c"0" + number % 10
        count += 1
        number //= 10
        if number == 0:
            break
    while count:
        count -= 1
        place[0] = digits[count]
        place += 1
    return place


def send_retained(Consumer consumer, outlet, str topic, bytes payload):
    """What sessions/mqtt_outlet.py sends of a retained message of QoS 0 that has no more headers. False: it has to."""
    cdef Outbox outbox = outlet.outbox
    cdef int version = outlet.version
    cdef Slice name, body, properties
    cdef Py_ssize_t size
    name.at = PyUnicode_AsUTF8AndSize(topic, &name.length)
    body.at, body.length = PyBytes_AS_STRING(payload), PyBytes_GET_SIZE(payload)
    properties.at, properties.length = NULL, 0
    size = packet_size(consumer.key, version, name.length, 0, body.length)
    if outbox.late or size > <Py_ssize_t>outlet.largest or not is_plain(name.at, name.length):
        return False
    return write_packet(consumer, outbox, version, name, properties, body, 0, RETAIN)


cdef class MqttReader(NatsReader):
    """Stands before a session and takes its bytes."""

    cdef int version, max_qos
    cdef Py_ssize_t packet_limit
    cdef dict aliases           # the protocol's: topics by their alias
    cdef object outlet
    cdef bytes speaker          # the client's identity as a producer; None: it is none
    cdef tuple blocks           # the header block of its messages, by QoS
    cdef bytes properties       # what other MQTT clients are told besides, in version 5
    # The message that is published just now.
    cdef int qos
    cdef bytes packet_id
    cdef Slice payload
    cdef bint has_tail, has_publication
    cdef Py_ssize_t skipped     # consumers of the client that want none of its own

    def receive_data(self, data):
        """Bytes from the client, cut anywhere."""
        if not self.waiting and self.session.unfinished:
            self.session.heard = True
            self.rest = (self.rest or b"") + bytes(data)
        else:
            NatsReader.receive_data(self, data)

    @property
    def unfinished(self):
        """Was something put off? A message can go to very many, and a SUBSCRIBE can be long; others want their turn."""
        return self.rest is not None or self.session.unfinished

    def go_on(self):
        """With what was put off."""
        if self.session.unfinished:
            self.session.go_on()
            self.refresh()
        else:
            NatsReader.go_on(self)

    cdef int refresh(self) except -1:
        session = self.session
        self.closed = session.state is CLOSED
        self.waiting = session.claim is not None
        self.plans = None if session.account.has_rates else session.plans
        self.echo = True
        self.max_qos = session.max_qos
        self.packet_limit = session.packet_limit
        if self.plans is None:
            return 0
        self.counters = session.exchange.counters
        self.last = session.exchange.last_values
        if self.last is not None:
            self.last.begin()
        if self.exchange is not session.exchange:
            self.exchange = session.exchange
            self.producers = self.exchange.producers
            self.known = self.producers.known
            self.speaks_for = session.speaks_for
        self.version = session.version
        self.aliases = session.aliases
        self.outlet = session.outlet
        speaker = session.speaker.identity.encode() if session.speaker.is_producer else None
        if self.blocks is None or speaker != self.speaker:
            self.speaker = speaker
            more = reading_headers(Reading(session.speaker.identity, {}, None)) if speaker else ()
            self.blocks = block_of({}, 0, False, more), block_of({}, 1, False, more)
            self.properties = pairs(properties_of(self.blocks[0]))
        return 0

    cdef int end_of_waiting(self) except -1:
        # A long SUBSCRIBE that came meanwhile is first done with, in its turns.
        if self.session.claim is None and not self.session.unfinished:
            NatsReader.end_of_waiting(self)
        return 0

    cdef Py_ssize_t complete(self, const char* data, Py_ssize_t length) except -1:
        if not self.needed:  # not even its length is known: byte by byte, until it is
            self.needed = self.pending_length + 1
        return NatsReader.complete(self, data, length)

    cdef Py_ssize_t run(self, const char* data, Py_ssize_t length) except -1:
        cdef Operation operation
        cdef const char* at = data
        cdef const char* end = data + length
        cdef Py_ssize_t size
        cdef Plan plan
        self.needed = 0
        if self.last is not None:
            self.last.begin()
        while at < end and not self.closed and not self.waiting:
            size = self.acknowledged(<const unsigned char*>at, end - at)
            if size:
                at += size
                continue
            size = self.take(<const unsigned char*>at, <const unsigned char*>end, &operation)
            if size == INCOMPLETE:
                break
            plan = None
            if size > 0:
                plan = self.plans.known(operation.topic, operation.topic_length)
                if plan is None:
                    plan = self.learn(&operation)
            if plan is not None and self.speaker is None:
                self.publish(plan, &operation)
                at += size
            elif plan is not None and self.read_own(plan, &operation):
                at += size
            else:
                size = self.hand_over(at, end)
                if size == INCOMPLETE:
                    break
                at += size
            if self.work >= WORK_AT_ONCE:
                break
        return at - data

    cdef Py_ssize_t acknowledged(self, const unsigned char* at, Py_ssize_t length) except -1:
        """A PUBACK in its usual form: its length; 0: it is something else."""
        if length < 4 or at[0] != 0x40 or at[1] != 2 or two(at + 2) == 0 or self.plans is None:
            return 0
        self.outlet.end(two(at + 2))
        self.work += WORK_OF_AN_ANSWER
        return 4

    cdef Py_ssize_t take(self, const unsigned char* at, const unsigned char* end, Operation* operation) except -2:
        """A PUBLISH in its usual form: its length, INCOMPLETE, or ODD."""
        cdef const unsigned char* p = at + 2
        cdef const unsigned char* name
        cdef Py_ssize_t size, name_length, alias = 0
        if self.plans is None or (at[0] != 0x30 and at[0] != 0x32 and at[0] != 0x3A):
            return ODD
        size = packet_length(at, end)
        if size == INCOMPLETE or size == MALFORMED or size > self.packet_limit or size > LONGEST_PAYLOAD:
            return ODD
        if size > end - at:
            self.needed = size
            return INCOMPLETE
        end = at + size
        while (p - 1)[0] >= 0x80:
            p += 1
        if end - p < 2:
            return ODD
        name_length = two(p)
        name = p + 2
        p = name + name_length
        self.qos = 1 if at[0] & 0x06 else 0
        if p > end or name_length > LONGEST_TOPIC or self.qos > self.max_qos:
            return ODD
        if self.qos:
            if end - p < 2 or two(p) == 0:
                return ODD
            self.packet_id = PyBytes_FromStringAndSize(<const char*>p, 2)
            p += 2
        if self.version == VERSION_5:
            if p == end:
                return ODD
            if p[0] == 3 and end - p >= 4 and p[1] == ALIAS_PROPERTY:
                alias = two(p + 2)
                if alias == 0:
                    return ODD
                p += 4
            elif p[0] == 0:
                p += 1
            else:
                return ODD
        if alias and not self.resolve(alias, <const char**>&name, &name_length):
            return ODD
        if not self.take_topic(<const char*>name, name_length):
            return ODD
        self.payload.at = <const char*>p
        self.payload.length = end - p
        self.has_tail = False
        operation.topic = topic_made
        operation.topic_length = name_length
        operation.reply_length = 0
        operation.producer.at = operation.metadata.at = NULL
        operation.headers = PyBytes_GET_SIZE(<bytes>self.blocks[self.qos]) or -1
        operation.total = self.payload.length + max(operation.headers, 0)
        operation.length = size
        return size

    cdef bint resolve(self, Py_ssize_t alias, const char** name, Py_ssize_t* length) except -1:
        """The topic of an alias that is set already. False: it is not, or has another one from now on."""
        cdef const char* known
        cdef Py_ssize_t known_length = 0
        cdef PyObject* found = PyDict_GetItem(self.aliases, alias)
        if found == NULL:
            return False
        known = PyUnicode_AsUTF8AndSize(<object>found, &known_length)
        if length[0] and (length[0] != known_length or memcmp(name[0], known, known_length) != 0):
            return False
        name[0] = known
        length[0] = known_length
        return True

    cdef bint take_topic(self, const char* name, Py_ssize_t length) noexcept:
        """The topic as the exchange has it. False: more has to be done to it than to replace its separators."""
        cdef Py_ssize_t at
        cdef char c
        if not 0 < length <= LONGEST_TOPIC:
            return False
        for at in range(length):
            c = name[at]
            if c == c"/":
                c = c"."
            elif c == c"." or not fumarole_strict[<unsigned char>c]:
                return False
            topic_made[at] = c
        return True

    # Publishing.

    cdef bint read_own(self, Plan plan, Operation* operation) except -1:
        """Publishes a reading of the client's own. False: the session has to."""
        operation.producer.at = PyBytes_AS_STRING(self.speaker)
        operation.producer.length = PyBytes_GET_SIZE(self.speaker)
        self.write_tail(operation)
        return self.read(plan, operation)

    cdef int answer(self, Operation* operation, Py_ssize_t reached) except -1:
        cdef Py_ssize_t skipped = self.skipped
        self.skipped = 0
        if self.has_publication:
            self.has_publication = False
            skipped += <Py_ssize_t>self.outlet.skipped
            self.outlet.own = None
        if skipped:
            reached -= skipped
            self.counters.routed -= skipped
        if self.qos:
            if reached == 0 and self.version == VERSION_5:
                self.outbox.push(b"\x40\x03" + self.packet_id + NO_MATCH)
            else:
                self.outbox.push(b"\x40\x02" + self.packet_id)
        return 0

    cdef int keep_last(self, Operation* operation) except -1:
        cdef bytes block = <bytes>self.blocks[self.qos]
        return self.last.keep(
            operation.topic, operation.topic_length, PyBytes_AS_STRING(block), PyBytes_GET_SIZE(block),
            self.payload.at, self.payload.length,
        )

    cdef object deliver(self, Consumer consumer, bytes key, Operation* operation, object publication):
        cdef Slice properties, topic
        if consumer.packets is not None and consumer.passes is None:
            if PyBytes_AS_STRING(key)[0] & NO_LOCAL and consumer.outlet is self.outlet:
                self.skipped += 1
                return publication
            topic.at, topic.length = operation.topic, operation.topic_length
            properties.at, properties.length = PyBytes_AS_STRING(self.properties), PyBytes_GET_SIZE(self.properties)
            if send_packet(consumer, self.qos and PyBytes_AS_STRING(key)[0] & QOS, topic, properties, self.payload):
                return publication
        if (consumer.outbox is not None or consumer.held is not None) and not self.has_tail:
            self.write_tail(operation)
        return NatsReader.deliver(self, consumer, key, operation, publication)

    cdef bint send_to_mqtt(self, Consumer consumer, Operation* operation) except -1:
        return False  # tried already

    cdef int write_tail(self, Operation* operation) except -1:
        """The message as NATS has it, from its sizes on."""
        cdef bytes block = <bytes>self.blocks[self.qos]
        cdef char* place = tail_made
        if operation.headers >= 0:
            place = write_number(place, operation.headers)
            place[0] = c" "
            place += 1
        place = write_number(place, operation.total)
        memcpy(place, b"\r\n", 2)
        place += 2
        memcpy(place, PyBytes_AS_STRING(block), PyBytes_GET_SIZE(block))
        place += PyBytes_GET_SIZE(block)
        if self.payload.length:
            memcpy(place, self.payload.at, self.payload.length)
        place += self.payload.length
        memcpy(place, b"\r\n", 2)
        operation.tail = tail_made
        operation.tail_length = place + 2 - tail_made
        self.has_tail = True
        return 0

    cdef object publication(self, Operation* operation):
        cdef bytes payload = self.payload.at[:self.payload.length]
        made = Publication(
            (<bytes>operation.topic[:operation.topic_length]).decode(), payload, "", <bytes>self.blocks[self.qos]
        )
        if self.identity is not None:
            made.reading = Reading(self.identity, {}, reading_value(payload) if self.value is None else self.value)
        self.has_publication = True
        self.outlet.own = made
        self.outlet.skipped = 0
        return made

    # To the session.

    cdef Py_ssize_t hand_over(self, const char* at, const char* end) except -1:
        """Gives one packet to the session. How many bytes that took, or INCOMPLETE."""
        cdef Py_ssize_t size = packet_length(<const unsigned char*>at, <const unsigned char*>end)
        if size == INCOMPLETE:
            return INCOMPLETE
        self.work += WORK_OF_A_HAND_OVER
        if 0 < size <= end - at:
            self.give(PyBytes_FromStringAndSize(at, size))
            self.refresh()
            return size
        # What is wrong with its beginning is said at once.
        self.session.receive_data(PyBytes_FromStringAndSize(at, min(end - at, PACKET_HEADER)))
        self.refresh()
        if self.closed:
            return end - at
        self.session.reclaim()
        self.needed = size
        return INCOMPLETE

    cdef int give(self, bytes data) except -1:
        """To the session. A long SUBSCRIBE is done in several turns, and then the rest of what came waits here."""
        self.session.receive_data(data)
        self.work += <Py_ssize_t>self.session.spent * WORK_OF_THE_SESSION
        if self.session.unfinished:
            self.work = WORK_AT_ONCE
        return 0
