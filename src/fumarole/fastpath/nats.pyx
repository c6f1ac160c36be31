# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The hot loop of the NATS door: PUB and HPUB, from the read buffer to the outboxes, a whole buffer at a time.

It is the fused copy of protocols/nats.py (parsing), sessions/nats.py (meaning) and exchange/exchange.py (routing), for the two
operations that come by the million and in the form in which clients send them. Everything else, every other operation, odd
spelling, error and surprise, is handed line by line to the session, which is the definition (sessions/reader.py); so this loop
has no errors of its own to report. tests/fastpath holds both equal, byte for byte.

    PUB volcanoes.usa.atka 4␍␊21.5␍␊     becomes, for a consumer with the sid 7,
    MSG volcanoes.usa.atka 7 4␍␊21.5␍␊

The topic is looked up as it stands in the buffer, and everything from the size on is copied as it stands, once for each consumer.

A message with the header `Producer` is a reading (M8). The session takes the first one that a client publishes for a producer, and
remembers that the client may (`speaks_for`). From then on readings are taken here. What their `Metadata` brings is merged here too,
by the exchange; a header that is the same as the last one over the same metadata brings nothing. What is wrong with one, the
session finds and says.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.dict cimport PyDict_GetItem
from cpython.object cimport PyTypeObject
from cpython.ref cimport Py_INCREF, PyObject
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE, PyTuple_SET_ITEM
from cpython.unicode cimport PyUnicode_AsUTF8AndSize, PyUnicode_DecodeASCII, PyUnicode_DecodeUTF8
from libc.string cimport memchr, memcmp, memcpy

from fumarole.fastpath.outbox cimport Consumer, Counters, Outbox, new_shared, release, shared_bytes
from fumarole.fastpath.json_paths cimport LONGEST_JSON
from fumarole.fastpath.msgpack_values cimport LONGEST_NUMBER_VALUE, text_head, write_number, write_text
from fumarole.fastpath.packets cimport is_plain, send_packet
from fumarole.fastpath.pieces cimport Pieces
from fumarole.fastpath.plans cimport Group, Plan, Plans, all_here, fumarole_strict
from fumarole.fastpath.readings cimport (
    A_PRODUCER, IDENTITY, NOT_ASCII, ORDINARY, OWN_TOPIC, identity_in, may_be_number, short_number
)
from fumarole.fastpath.texts cimport Slice, is_text, is_utf8, line_end_in

from fumarole.core.errors import FumaroleError
from fumarole.core.publication import FRAMING as PURE_FRAMING, Publication
from fumarole.core.query.evaluation import Unprepared
from fumarole.core.query.message import Message
from fumarole.exchange.exchange import BEFORE_GROUP as PURE_BEFORE_GROUP
from fumarole.core.values import ONLINE
from fumarole.exchange.producer import TEXT_KEPT, Elsewhere, kept
from fumarole.exchange.quotas import QuotaError
from fumarole.exchange.readings import Reading, reading_value
from fumarole.protocols.msgpack import pack
from fumarole.protocols.nats import PONG as PURE_PONG
from fumarole.sessions.nats_forms import metadata_said, reading_of
from fumarole.sessions.stream import State

cdef Py_ssize_t FRAMING = PURE_FRAMING
cdef bytes PONG = PURE_PONG
cdef bytes BEFORE_GROUP = PURE_BEFORE_GROUP
cdef object CLOSED = State.CLOSED
cdef dict NOTHING = {}
cdef bytes EMPTY_MAP = pack({})

cdef extern from *:
    """
    #define LARGE 8192                  /* bytes of an operation's tail that outboxes share, and do not copy */
    #define TEXT_LOOKED_AT 1028     /* bytes of a payload: with them goes all that is kept of a text, and the sign that there is more */
    #define NAME 9                      /* "Producer:", "Metadata:" */
    #define SHORT_NAME 7                /* "Retain:" */
    #define LINES_AT_ONCE 100               /* SUB and UNSUB that go to the session together: about a millisecond */
    #define TRACE_NAME 12               /* "traceparent:" */
    #define READING_HEAD 3              /* of a reading in MsgPack: an array of three, a text of 36 bytes */
    #define BYTES_SCANNED 32            /* of a payload, in the time that a message takes to be put into an outbox */
    """
    const Py_ssize_t LARGE, TEXT_LOOKED_AT, NAME, SHORT_NAME, LINES_AT_ONCE, TRACE_NAME, READING_HEAD, BYTES_SCANNED

cdef extern from "Python.h":
    object PyType_GenericAlloc(PyTypeObject* kind, Py_ssize_t items)

assert TEXT_LOOKED_AT > 4 * TEXT_KEPT


cdef inline Slice headers_of(Operation* operation) noexcept:
    cdef Slice block
    block.at = operation.tail + operation.tail_length - 2 - operation.total
    block.length = max(operation.headers, 0)
    return block


cdef inline Slice payload_of(Operation* operation) noexcept:
    cdef Slice payload
    payload.length = operation.total - max(operation.headers, 0)
    payload.at = operation.tail + operation.tail_length - 2 - payload.length
    return payload


cdef inline bint look_at_headers(Operation* operation) noexcept:
    """The headers that make a reading of a message, as `core/headers.py` (last) finds them.

    False: it has the header `Retain`. Then it is the exchange that keeps the message, and knows whether it may.
    """
    cdef Slice block = headers_of(operation)
    cdef const char* end = block.at + block.length
    cdef const char* at = line_end_in(block.at, end)
    while end - at >= SHORT_NAME + 2:
        at += 2
        if memcmp(at, b"Retain:", SHORT_NAME) == 0:
            return False
        if end - at >= NAME:
            if memcmp(at, b"Producer:", NAME) == 0:
                operation.producer.at = at + NAME
            elif memcmp(at, b"Metadata:", NAME) == 0:
                operation.metadata.at = at + NAME
        at = line_end_in(at, end)
    if operation.producer.at != NULL:
        operation.producer.length = line_end_in(operation.producer.at, end) - operation.producer.at
        if operation.metadata.at != NULL:
            operation.metadata.length = line_end_in(operation.metadata.at, end) - operation.metadata.at
    return True


cdef bint may_be_traced(Operation* operation) noexcept:
    """Has it a header that is written like `traceparent`? Whether it is sampled, the exchange finds (exchange/tracer.py)."""
    cdef Slice block = headers_of(operation)
    cdef const char* end = block.at + block.length
    cdef const char* at = line_end_in(block.at, end)
    while end - at >= TRACE_NAME + 2:
        at += 2
        if memcmp(at + 1, b"raceparent:", TRACE_NAME - 1) == 0:
            return True
        at = line_end_in(at, end)
    return False


cdef inline object elsewhere(object topic, object value):
    """The value of a reading on another topic than the producer's own. A plain tuple call would copy the items once more."""
    cdef tuple made = <tuple>PyType_GenericAlloc(<PyTypeObject*>Elsewhere, 2)
    Py_INCREF(topic)
    PyTuple_SET_ITEM(made, 0, topic)
    Py_INCREF(value)
    PyTuple_SET_ITEM(made, 1, value)
    return made


cdef inline bint is_own_topic(Operation* operation, const char* identity) noexcept:
    """Is it the topic on which this producer publishes unless it says otherwise?"""
    return (
        operation.topic_length == OWN_TOPIC + IDENTITY
        and memcmp(operation.topic, b"readings.", OWN_TOPIC) == 0
        and memcmp(operation.topic + OWN_TOPIC, identity, IDENTITY) == 0
    )


cdef inline bint is_subscription(const char* line) noexcept:
    return line[0] == c"S" or line[0] == c"U"


cdef class NatsReader:
    """Stands before a session and takes its bytes."""

    def __init__(self, session):
        self.session = session
        self.outbox = session.outbox
        self.control_line = session.node.limits.control_line
        self.payload_limit = session.node.limits.payload
        self.metadata_bytes = session.node.limits.metadata_bytes
        self.traces = session.node.namespaces.tracer is not None
        self.refresh()

    def __dealloc__(self):
        if self.pending != NULL:
            release(self.pending)

    def receive_data(self, data):
        """Bytes from the client, cut anywhere."""
        cdef Py_buffer view
        self.session.heard = True
        self.work = 0
        if self.waiting:
            self.end_of_waiting()
        elif self.session.state is CLOSED:
            self.closed = True  # by time or by an overflow: nothing that came through here
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            self.consume(<const char*>view.buf, view.len)
        finally:
            PyBuffer_Release(&view)

    @property
    def unfinished(self):
        """Was something put off? One operation can mean a message to each of very many; others want their turn."""
        return self.rest is not None or (self.waiting and self.session.unfinished)

    def renew(self):
        """What the session goes by has changed: the configuration was loaded again (A7)."""
        self.refresh()

    def go_on(self):
        """With what was put off."""
        cdef bytes rest = self.rest
        if self.waiting and self.session.unfinished:
            self.session.go_on()
            return
        self.rest = None
        self.work = 0
        if self.waiting:
            self.end_of_waiting()
        if rest is not None and self.session.state is not CLOSED:
            self.consume(rest, len(rest))

    cdef int refresh(self) except -1:
        """What an operation that the session has handled may have changed."""
        session = self.session
        self.closed = session.state is CLOSED
        self.waiting = session.claim is not None
        # Where messages are counted by the second (A5), the session takes each of them.
        self.plans = None if session.account.has_rates else session.plans
        self.verbose = session.verbose
        self.echo = session.echo
        if self.plans is not None:
            self.counters = session.exchange.counters
            self.last = session.exchange.last_values
            if self.last is not None:
                self.last.begin()
            if self.exchange is not session.exchange:
                self.exchange = session.exchange
                self.producers = self.exchange.producers
                self.known = self.producers.known
                self.speaks_for = session.speaks_for
        return 0

    cdef int end_of_waiting(self) except -1:
        """The session has kept what came while the claim was looked at; if it goes on, the rest comes back here."""
        cdef bytes rest
        if self.session.claim is None:
            while self.session.unfinished:
                self.session.go_on()
            rest = self.session.reclaim()
            self.refresh()
            self.consume(rest, len(rest))
        return 0

    cdef int consume(self, const char* data, Py_ssize_t length) except -1:
        cdef Py_ssize_t used
        while length > 0 and not self.closed:
            if self.work >= WORK_AT_ONCE or self.rest is not None:
                self.rest = (self.rest or b"") + PyBytes_FromStringAndSize(data, length)
                return 0
            if self.waiting:
                self.session.receive_data(PyBytes_FromStringAndSize(data, length))
                self.refresh()
                return 0
            if self.pending_length:
                used = self.complete(data, length)
            else:
                used = self.run(data, length)
                if used < length and not self.closed and not self.waiting and self.work < WORK_AT_ONCE:
                    self.keep(data + used, length - used)
                    return 0
            data += used
            length -= used
        return 0

    cdef int keep(self, const char* data, Py_ssize_t length) except -1:
        """Keeps bytes of an operation until the rest is there."""
        cdef Py_ssize_t capacity = self.pending_length + length
        if capacity > self.pending_capacity:
            capacity = max(capacity, self.needed, 256)
            self.pending = new_shared(self.pending, capacity)
            self.pending_capacity = capacity
        memcpy(shared_bytes(self.pending) + self.pending_length, data, length)
        self.pending_length += length
        return 0

    cdef Py_ssize_t complete(self, const char* data, Py_ssize_t length) except -1:
        """Adds to the operation that is pending what belongs to it, and runs it when it is whole. How many bytes that took."""
        cdef Py_ssize_t used
        cdef const char* line_end
        if self.needed:
            used = min(length, self.needed - self.pending_length)
        else:
            line_end = <const char*>memchr(data, c"\n", length)
            used = length if line_end == NULL else line_end - data + 1
        self.keep(data, used)
        if self.needed and self.pending_length < self.needed:
            return used
        if self.run(shared_bytes(self.pending), self.pending_length) or self.closed:
            # Whatever has a line end and all its payload is done with as a whole; outboxes may hold it still.
            release(self.pending)
            self.pending = NULL
            self.pending_length = self.pending_capacity = self.needed = 0
        return used

    cdef Py_ssize_t run(self, const char* data, Py_ssize_t length) except -1:
        """Runs every whole operation. How many bytes they were; what is left is the beginning of one more."""
        cdef Operation operation
        cdef const char* at = data
        cdef const char* end = data + length
        cdef Py_ssize_t size
        cdef Plan plan
        self.needed = 0
        if self.last is not None:
            self.last.begin()
        while at < end and not self.closed and not self.waiting:
            size = ODD if self.plans is None else self.parse(at, end, &operation)
            if size == INCOMPLETE:
                break
            if size == ODD and end - at >= 6 and memcmp(at, b"PING\r\n", 6) == 0 and self.session.is_confirmed():
                self.outbox.push(PONG)
                at += 6
                continue
            plan = None
            if size != ODD:
                plan = self.plans.known(operation.topic, operation.topic_length)
                if plan is None:
                    plan = self.learn(&operation)
            if plan is not None and operation.producer.at == NULL:
                self.publish(plan, &operation)
                at += size
            elif plan is not None and self.read(plan, &operation):
                at += size
            else:
                size = self.hand_over(at, end)
                if size == INCOMPLETE:
                    break
                at += size
            if self.work >= WORK_AT_ONCE:
                break
        return at - data

    cdef Plan learn(self, Operation* operation):
        """The plan of a new topic, or one that has to be renewed; None: it may not be published, and the session says why."""
        cdef long long looked_at = self.plans.index.looked_at
        try:
            return self.plans.learn(operation.topic, operation.topic_length)
        except FumaroleError:
            return None
        finally:
            self.work += self.plans.index.looked_at - looked_at

    cdef Py_ssize_t parse(self, const char* at, const char* end, Operation* operation) noexcept:
        """A PUB or HPUB in its usual form: its length, INCOMPLETE, or ODD."""
        cdef const char* p = at
        cdef const char* word
        cdef bint headers
        cdef Py_ssize_t length
        cdef const char* line_end = line_after(&p, end, b"PUB ", self.control_line, &headers)
        if line_end == NULL:
            return ODD
        while p[0] == c" ":
            p += 1
        word = <const char*>memchr(p, c" ", line_end - p)
        if word == NULL or p[0] == c"$":
            return ODD
        operation.topic = p
        operation.topic_length = word - p
        p = word
        while p[0] == c" ":
            p += 1
        operation.reply_length = 0
        operation.tail = p
        if not sizes(&p, line_end, headers, operation):
            p = operation.reply = operation.tail
            while p < line_end and fumarole_strict[<unsigned char>p[0]]:
                p += 1
            operation.reply_length = p - operation.reply
            if p[0] != c" " or operation.reply_length == 0 or operation.reply[0] == c"." or (p - 1)[0] == c".":
                return ODD
            while p[0] == c" ":
                p += 1
            operation.tail = p
            if not sizes(&p, line_end, headers, operation):
                return ODD
        length = whole(at, end, line_end, self.payload_limit, operation, &self.needed)
        operation.producer.at = operation.metadata.at = NULL
        if headers and length > 0:
            if operation.headers < 8 or memcmp(line_end + 2, b"NATS/1.0", 8) != 0 or not look_at_headers(operation):
                return ODD
            if self.traces and may_be_traced(operation):
                return ODD
        return length

    # Readings.

    cdef bint read(self, Plan plan, Operation* operation) except -1:
        """Publishes a message with the header `Producer`. False: the session has to."""
        cdef char identity[IDENTITY]
        cdef int kind = identity_in(operation.producer, identity)
        cdef PyObject* found
        cdef bint is_news
        if kind == ORDINARY:
            self.publish(plan, operation)
            return True
        if kind == NOT_ASCII or self.producers.filling:  # until all sets are whole, each producer is looked at first
            return False
        if self.spoken is None or memcmp(PyUnicode_AsUTF8AndSize(self.spoken, NULL), identity, IDENTITY) != 0:
            self.spoken = PyUnicode_DecodeASCII(identity, IDENTITY, NULL)
        self.identity = self.spoken
        self.now = self.session.now
        self.value = None
        try:
            found = PyDict_GetItem(self.known, self.identity)
            if found == NULL or PyDict_GetItem(self.speaks_for, self.identity) != found:
                return False
            producer = <object>found
            told = self.producers.told
            is_news = operation.metadata.at != NULL and not self.has_said(producer, operation.metadata)
            if is_news and self.producers.guarded and not self.stays(producer, operation):
                return False
            if is_news and not self.merge(producer, operation.metadata):
                return False
            self.take_value(producer, operation)
            if self.producers.told != told:  # a consumer that got a diff may have been cut off
                plan = self.exchange.plan_for(producer, operation.topic[:operation.topic_length], self.plans)
            elif producer.standings:
                plan = self.plans.joined(plan, producer, self.producers, operation.topic, operation.topic_length)
            if plan.filters is not None:
                plan = self.passed(plan, producer, operation)
            if all_here(plan):
                self.publish(plan, operation)
            else:
                reached = self.exchange.publish(plan, self.publication(operation), self.session)
                self.work += <Py_ssize_t>reached + 1
                self.answer(operation, reached)
            return True
        finally:
            self.identity = None

    cdef bint has_said(self, object producer, Slice metadata) except -1:
        """Was this header merged into the producer's metadata last, as it is now?"""
        cdef object said = producer.said
        if said is None or (<tuple>said)[1] is not producer.metadata:
            return False
        return is_text(metadata, PyBytes_AS_STRING((<tuple>said)[0]), PyBytes_GET_SIZE((<tuple>said)[0]))

    cdef bint merge(self, object producer, Slice metadata) except -1:
        """Merges what the header brings, and tells those whose set changes (M5). False: something is wrong with it."""
        cdef bytes text = metadata.at[:metadata.length]
        told = self.producers.told
        try:
            said = metadata_said(text.decode("utf-8", "replace").strip(), self.metadata_bytes)
            if ONLINE in said:  # left out of the message too
                return False
            self.producers.describe(self.identity, said, self.now, self.session.account)
        except QuotaError as error:  # the session says why, and counts it
            error.uncount()
            return False
        except (FumaroleError, Unprepared):  # the session says why, or waits
            return False
        producer.said = text, producer.metadata
        self.work += WORK_OF_THE_SESSION * (1 + WORK_OF_A_DIFF * <Py_ssize_t>(self.producers.told - told))
        return True

    cdef bint stays(self, object producer, Operation* operation) except -1:
        """Was its last reading on the same topic? If not, others may receive it now, and are told of both changes at once."""
        cdef object latest = producer.value, known
        cdef const char* topic
        cdef Py_ssize_t topic_length = 0
        if type(latest) is not Elsewhere:
            topic = PyUnicode_AsUTF8AndSize(self.identity, &topic_length)
            return is_own_topic(operation, topic)
        known = (<tuple>latest)[0]
        topic = PyUnicode_AsUTF8AndSize(known, &topic_length)
        return topic_length == operation.topic_length and memcmp(topic, operation.topic, topic_length) == 0

    cdef int take_value(self, object producer, Operation* operation) except -1:
        """This is the producer's latest reading."""
        cdef Slice payload = payload_of(operation)
        cdef const char* topic
        cdef Py_ssize_t topic_length = 0
        cdef object latest = producer.value, value, known
        cdef bint is_own
        value = self.value = short_number(payload.at, payload.length)
        self.is_text = False
        if value is None:
            if payload.length and may_be_number(payload.at[0]):
                value = reading_value(payload.at[:payload.length])
            else:
                self.is_text = True
                value = PyUnicode_DecodeUTF8(payload.at, min(payload.length, TEXT_LOOKED_AT), "replace")
            if type(value) is str and len(value) > TEXT_KEPT:
                value = kept(value)
        topic = PyUnicode_AsUTF8AndSize(self.identity, &topic_length)
        is_own = is_own_topic(operation, topic)
        if type(latest) is Elsewhere and not is_own:
            known = (<tuple>latest)[0]
            topic = PyUnicode_AsUTF8AndSize(known, &topic_length)
            if topic_length == operation.topic_length and memcmp(topic, operation.topic, topic_length) == 0:
                producer.heard = self.now
                producer.value = elsewhere(known, value)
                return 0
        elif is_own and latest is not None and type(latest) is not Elsewhere:
            producer.heard = self.now
            producer.value = value
            return 0
        # On another topic than the last one: that may change which users may receive the producer.
        self.producers.hear(Reading(self.identity, NOTHING, value), self.now, operation.topic[:operation.topic_length].decode())
        return 0

    cdef Plan passed(self, Plan plan, object producer, Operation* operation):
        """The plan of this reading, where a query tests its value or more."""
        cdef object filters = plan.filters
        cdef Pieces pieces = filters.pieces
        cdef Slice payload = payload_of(operation)
        cdef Plan found = None
        if pieces is not None:
            self.work += 1
            if pieces.cuts.paths is not None:
                self.work += min(payload.length, LONGEST_JSON) // BYTES_SCANNED
                found = pieces.of_payload(payload.at, payload.length)
            elif self.value is not None or self.is_text:
                found = pieces.of_value(self.value)
        if found is None:
            self.work += <Py_ssize_t>filters.work(payload.length)
            found = filters.plan_of(Message(self.publication(operation), producer.metadata, filters.reads))
        return found

    # Publishing.

    cdef Py_ssize_t publish(self, Plan plan, Operation* operation) except -1:
        """Hands the message to every entity of the plan. How many there were."""
        cdef Py_ssize_t routed = 0, forwarded = 0, each, weight
        cdef tuple share
        cdef Consumer consumer
        cdef object publication = None
        # A plan may be renewed while its messages are handed out; what it was then is what counts.
        cdef tuple consumers = plan.consumers, groups = plan.groups, couriers = plan.couriers
        cdef dict chosen = None     # nodes that serve a group, and the key of the one copy that each gets
        operation.shared = NULL
        if self.last is not None:
            self.keep_last(operation)
        for each in range(PyTuple_GET_SIZE(consumers)):
            consumer = <Consumer>PyTuple_GET_ITEM(consumers, each)
            if self.echo or consumer.outlet is not self.session:
                publication = self.deliver(consumer, consumer.key, operation, publication)
                routed += 1
        if PyTuple_GET_SIZE(groups):
            weight = operation.topic_length + operation.reply_length + operation.total + FRAMING
            for each in range(PyTuple_GET_SIZE(groups)):
                share = <tuple>PyTuple_GET_ITEM(groups, each)
                consumer = (<Group>PyTuple_GET_ITEM(share, 0)).pick(
                    <tuple>PyTuple_GET_ITEM(share, 1), weight, self.session,
                    operation.topic, operation.topic_length, self.identity,
                )
                if consumer is None:
                    continue
                if consumer.courier is None:
                    publication = self.deliver(consumer, consumer.key, operation, publication)
                    routed += 1
                elif PyTuple_GET_SIZE(groups) == 1 and PyTuple_GET_SIZE(couriers) == 0:
                    publication = self.deliver(consumer.courier, consumer.key, operation, publication)
                    forwarded += 1
                else:
                    if chosen is None:
                        chosen = {courier: (<Consumer>courier).key for courier in couriers}
                    served = chosen.get(consumer.courier)
                    chosen[consumer.courier] = consumer.key if served is None else served + BEFORE_GROUP + (
                        (<Group>PyTuple_GET_ITEM(share, 0)).name.encode()
                    )
        if chosen is not None:
            for courier, key in chosen.items():
                publication = self.deliver(courier, key, operation, publication)
                forwarded += 1
        else:
            for each in range(PyTuple_GET_SIZE(couriers)):
                consumer = <Consumer>PyTuple_GET_ITEM(couriers, each)
                publication = self.deliver(consumer, consumer.key, operation, publication)
                forwarded += 1
        return self.published(operation, routed, forwarded)

    cdef int keep_last(self, Operation* operation) except -1:
        """It is the newest message of its topic (F2)."""
        cdef Slice block = headers_of(operation), payload = payload_of(operation)
        if self.identity is not None and not block.length:
            self.last.put(self.publication(operation))  # its headers are made of the reading
            return 0
        return self.last.keep(
            operation.topic, operation.topic_length, block.at, block.length, payload.at, payload.length
        )

    cdef Py_ssize_t published(self, Operation* operation, Py_ssize_t routed, Py_ssize_t forwarded) except -1:
        """Counts the message, and answers where that is wanted."""
        if operation.shared != NULL:
            release(operation.shared)
        self.counters.received += 1
        self.counters.received_bytes += operation.total
        self.counters.routed += routed
        self.counters.forwarded += forwarded
        self.work += routed + forwarded
        if routed + forwarded == 0:
            self.counters.unheard += 1
        self.answer(operation, routed + forwarded)
        return routed + forwarded

    cdef int answer(self, Operation* operation, Py_ssize_t reached) except -1:
        """What the client hears of its message, which reached so many entities."""
        cdef long long looked_at
        if reached == 0 and operation.reply_length:
            looked_at = self.plans.index.looked_at
            self.session.nobody_heard(
                operation.topic[:operation.topic_length], (<bytes>operation.reply[:operation.reply_length]).decode()
            )
            self.work += self.plans.index.looked_at - looked_at
        if self.verbose:
            self.session.okay()
            self.closed = self.session.state is CLOSED
        return 0

    cdef object deliver(self, Consumer consumer, bytes key, Operation* operation, object publication):
        """One message to one consumer. Where the frame cannot be made here, its outlet gets the publication (made once)."""
        cdef Outbox outbox = consumer.outbox
        cdef Py_ssize_t sid_length, length
        cdef char* place
        if consumer.held is not None and self.waits(consumer, operation):
            return publication
        if outbox is None or (operation.headers >= 0 and not outbox.takes_headers):
            if consumer.packets is not None and self.send_to_mqtt(consumer, operation):
                return publication
            if consumer.readings is not None and self.send_reading(consumer, operation):
                return publication
            if publication is None:
                publication = self.publication(operation)
            (consumer.outlet if consumer.passes is None else consumer.passes).accept(consumer, publication)
            return publication
        sid_length = PyBytes_GET_SIZE(key)
        length = 6 + operation.topic_length + sid_length + (operation.headers >= 0)
        if operation.reply_length:
            length += operation.reply_length + 1
        consumer.accepted += 1
        place = self.frame_of(outbox, length, operation, consumer)
        if place != NULL:
            if operation.headers >= 0:
                place[0] = c"H"
                place += 1
            memcpy(place, b"MSG ", 4)
            place += 4
            memcpy(place, operation.topic, operation.topic_length)
            place += operation.topic_length
            place[0] = c" "
            place += 1
            memcpy(place, PyBytes_AS_STRING(key), sid_length)
            place += sid_length
            place[0] = c" "
            place += 1
            if operation.reply_length:
                memcpy(place, operation.reply, operation.reply_length)
                place += operation.reply_length
                place[0] = c" "
                place += 1
            if operation.shared == NULL:
                memcpy(place, operation.tail, operation.tail_length)
        if consumer.limit and consumer.accepted >= consumer.limit:
            consumer.outlet.expire(consumer)
        return publication

    cdef char* frame_of(self, Outbox outbox, Py_ssize_t length, Operation* operation, Consumer consumer) except? NULL:
        """Room for what precedes the tail of a frame, and for the tail unless outboxes share it. NULL: it was dropped."""
        if operation.tail_length < LARGE:
            return outbox.reserve(length + operation.tail_length, consumer)
        if operation.shared == NULL:
            self.share(operation)
        return outbox.reserve_head(length, operation.shared, operation.tail, operation.tail_length, consumer)

    cdef int share(self, Operation* operation) except -1:
        """The tail of the operation stays where it is, if the operation was pending, or is copied once."""
        cdef char* pending
        if self.pending != NULL:
            pending = shared_bytes(self.pending)
            if pending <= operation.tail < pending + self.pending_length:
                operation.shared = self.pending
                operation.shared.holders += 1
                return 0
        operation.shared = new_shared(NULL, operation.tail_length)
        memcpy(shared_bytes(operation.shared), operation.tail, operation.tail_length)
        operation.tail = shared_bytes(operation.shared)
        return 0

    cdef bint waits(self, Consumer consumer, Operation* operation) except -1:
        """With `every` (F4): is it a message that only takes the place of the one that waits? Then that is done."""
        cdef Slice payload
        cdef int held
        if operation.headers >= 0 or operation.reply_length or self.identity is not None:
            return False
        payload = payload_of(operation)
        held = consumer.held.hold_payload(operation.topic, operation.topic_length, payload.at, payload.length)
        if held == 2:
            consumer.conflated += 1
            self.counters.conflated += 1
        return held > 0

    cdef bint send_to_mqtt(self, Consumer consumer, Operation* operation) except -1:
        """The message to an MQTT client, if it is one that can be written here."""
        cdef Slice topic, nothing
        if operation.headers >= 0 or operation.reply_length or not is_plain(operation.topic, operation.topic_length):
            return False
        topic.at, topic.length = operation.topic, operation.topic_length
        nothing.at, nothing.length = NULL, 0
        return send_packet(consumer, 0, topic, nothing, payload_of(operation))

    cdef bint send_reading(self, Consumer consumer, Operation* operation) except -1:
        """The reading to a MsgPack client (M6), if it is one that can be written here."""
        cdef Slice payload = payload_of(operation)
        cdef bytes brought
        cdef char* place
        cdef char number[LONGEST_NUMBER_VALUE]
        cdef Py_ssize_t length
        if self.identity is None or consumer.readings.late:
            return False
        if self.value is not None:
            length = write_number(number, self.value)
        elif self.is_text and is_utf8(payload):
            length = payload.length + text_head(payload.length)
        else:
            return False
        brought = self.packed(operation)
        consumer.accepted += 1
        place = consumer.readings.reserve(READING_HEAD + IDENTITY + PyBytes_GET_SIZE(brought) + length, consumer)
        if place == NULL:
            return True
        memcpy(place, b"\x93\xd9\x24", READING_HEAD)
        memcpy(place + READING_HEAD, PyUnicode_AsUTF8AndSize(self.identity, NULL), IDENTITY)
        place += READING_HEAD + IDENTITY
        memcpy(place, PyBytes_AS_STRING(brought), PyBytes_GET_SIZE(brought))
        place += PyBytes_GET_SIZE(brought)
        if self.value is not None:
            memcpy(place, number, length)
        else:
            write_text(place, payload)
        return True

    cdef bytes packed(self, Operation* operation):
        """The metadata that a reading brings, in MsgPack. Mostly it is what the one before brought."""
        if operation.metadata.at == NULL:
            return EMPTY_MAP
        if self.brought is None or not is_text(
            operation.metadata, PyBytes_AS_STRING(self.brought), PyBytes_GET_SIZE(self.brought)
        ):
            text = <bytes>operation.metadata.at[:operation.metadata.length]
            said = metadata_said(text.decode("utf-8", "replace").strip(), self.metadata_bytes)
            self.brought_packed = pack(dict(said))
            self.brought = text
        return self.brought_packed

    cdef object publication(self, Operation* operation):
        cdef bytes topic = operation.topic[:operation.topic_length]
        cdef bytes reply = operation.reply[:operation.reply_length] if operation.reply_length else b""
        cdef Slice block = headers_of(operation), payload = payload_of(operation)
        made = Publication(topic.decode(), payload.at[:payload.length], reply.decode(), block.at[:block.length])
        if self.identity is not None:
            if self.value is not None and operation.metadata.at == NULL:
                made.reading = Reading(self.identity, {}, self.value)
            else:
                made.reading = reading_of(made, self.metadata_bytes)
        return made

    cdef Py_ssize_t hand_over(self, const char* at, const char* end) except -1:
        """Gives one operation to the session: its line, then as much as it wants. How many bytes that took, or INCOMPLETE."""
        cdef const char* line_end = <const char*>memchr(at, c"\n", end - at)
        cdef Py_ssize_t length, wanted
        cdef Py_ssize_t lines = 1
        if line_end == NULL:
            if end - at <= self.control_line + 1:  # the last of these may be half a line end
                return INCOMPLETE
            line_end = end - 1
        length = line_end + 1 - at
        self.work += WORK_OF_A_HAND_OVER
        while is_subscription(at) and at + length < end and is_subscription(at + length) and lines < LINES_AT_ONCE:
            # Lines that announce no payload go over together: a million of them may come one after another.
            lines += 1
            line_end = <const char*>memchr(at + length, c"\n", end - at - length)
            if line_end == NULL:
                break
            length = line_end + 1 - at
            self.work += WORK_OF_A_HAND_OVER
        self.give(PyBytes_FromStringAndSize(at, length))
        wanted = self.session.wanted()
        if wanted > end - at - length:
            # Taken back, and handed over whole when the rest is there.
            self.session.reclaim()
            self.needed = length + wanted
            self.refresh()
            return INCOMPLETE
        if wanted > 0:
            self.give(PyBytes_FromStringAndSize(at + length, wanted))
            length += wanted
        self.refresh()
        return length

    cdef int give(self, bytes data) except -1:
        """To the session. Its work counts as the reader's: an oddly spelled PUB may go to very many consumers too."""
        self.session.receive_data(data)
        self.work += <Py_ssize_t>self.session.spent * WORK_OF_THE_SESSION
        while self.session.unfinished:
            self.session.go_on()
            self.work += <Py_ssize_t>self.session.spent * WORK_OF_THE_SESSION
        return 0
