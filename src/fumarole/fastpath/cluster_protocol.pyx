# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The hot loop of a link between nodes: messages that another node forwarded, from the read buffer to the outboxes here.

It is the copy of protocols/cluster_protocol.py and cluster/lane.py for MSG and HMSG, as fastpath/nats.pyx is for PUB and HPUB of clients, and
shares all but the frames with it. Whatever is not such a message is handed to the lane.

    MSG volcanoes.usa.atka default␁analysts 4␍␊21.5␍␊    becomes, for a member of `analysts` with the sid 7,
    MSG volcanoes.usa.atka 7 4␍␊21.5␍␊

Messages of one namespace and for the same groups follow one another, so what their key means is looked up once for all of them.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.string cimport memchr, memcmp

from fumarole.fastpath.nats cimport (
    INCOMPLETE, NatsReader, ODD, Operation, WORK_AT_ONCE, line_after, may_be_traced, sizes, whole
)
from fumarole.fastpath.outbox cimport Consumer, release
from fumarole.fastpath.plans cimport Group, Plan, has_room

from fumarole.core.publication import FRAMING as PURE_FRAMING
from fumarole.protocols.cluster_protocol import LINE_BYTES as PURE_LINE_BYTES, MESSAGE_BYTES, STRANGER_BYTES as PURE_STRANGER_BYTES
from fumarole.sessions.stream import State

cdef Py_ssize_t FRAMING = PURE_FRAMING
cdef Py_ssize_t LINE_BYTES = PURE_LINE_BYTES
cdef Py_ssize_t STRANGER_BYTES = PURE_STRANGER_BYTES
cdef object CLOSED = State.CLOSED


cdef class PeerLinkReader(NatsReader):
    """Stands before a lane and takes its bytes."""

    cdef bytes key              # of the last message
    cdef object found           # what it means: an exchange and groups, or None
    cdef tuple groups
    cdef bint stale
    cdef Py_ssize_t reserve     # room that a member of a group should have left
    cdef long long messages     # since the lane was last told

    def __init__(self, session):
        NatsReader.__init__(self, session)
        self.payload_limit = max(self.payload_limit, MESSAGE_BYTES)
        self.key = b""

    def receive_data(self, data):
        """Bytes from the peer, cut anywhere."""
        self.outbox = self.session.outbox
        self.refresh()
        NatsReader.receive_data(self, data)
        self.tell()

    def go_on(self):
        """With what was put off."""
        NatsReader.go_on(self)
        self.tell()

    cdef int tell(self) except -1:
        if self.messages and self.session.peer is not None:
            self.session.peer.received += self.messages
        self.messages = 0
        return 0

    cdef int refresh(self) except -1:
        self.closed = self.session.state is CLOSED
        # Of a peer without proof, no more is kept than the lane would take.
        self.control_line = STRANGER_BYTES if self.session.peer is None else LINE_BYTES
        self.stale = self.session.is_stale()
        self.key = b""          # the namespace may be another one of the same name by now
        return 0

    cdef Py_ssize_t run(self, const char* data, Py_ssize_t length) except -1:
        cdef Operation operation
        cdef const char* at = data
        cdef const char* end = data + length
        cdef const char* key = NULL
        cdef Py_ssize_t size, key_length = 0
        cdef Plan plan
        self.needed = 0
        while at < end and not self.closed:
            size = parse_message(at, end, self.control_line, self.payload_limit, &operation, &key, &key_length, &self.needed)
            if size == INCOMPLETE:
                break
            if size > 0 and self.traces and operation.headers > 0 and may_be_traced(&operation):
                size = ODD
            if size == ODD or self.session.plans is None:
                size = self.hand_over(at, end)
                if size == INCOMPLETE:
                    break
                at += size
            else:
                if PyBytes_GET_SIZE(self.key) != key_length or memcmp(PyBytes_AS_STRING(self.key), key, key_length) != 0:
                    self.look_up(PyBytes_FromStringAndSize(key, key_length))
                at += size
                self.messages += 1
                plan = None
                if self.found is not None and not self.stale:
                    plan = self.plans.known(operation.topic, operation.topic_length)
                    if plan is None:
                        plan = self.learn(&operation)
                if plan is None:
                    self.session.count_late(self.found)
                else:
                    self.publish(plan, &operation)
            if self.work >= WORK_AT_ONCE:
                break
        return at - data

    cdef int look_up(self, bytes key) except -1:
        self.found = self.session.find(key)
        self.key = key
        if self.found is not None:
            exchange, self.groups = self.found
            self.plans = exchange.own_plans()
            self.counters = exchange.counters
            self.reserve = exchange.reserve
        return 0

    cdef object publication(self, Operation* operation):
        publication = NatsReader.publication(self, operation)
        publication.node = self.session.peer.name
        return publication

    cdef Py_ssize_t publish(self, Plan plan, Operation* operation) except -1:
        """To consumers of this node only (C3)."""
        cdef Py_ssize_t routed = 0, each, weight
        cdef tuple share
        cdef Consumer consumer
        cdef object publication = None
        cdef tuple consumers = plan.consumers, groups = plan.groups
        operation.shared = NULL
        for each in range(PyTuple_GET_SIZE(consumers)):
            consumer = <Consumer>PyTuple_GET_ITEM(consumers, each)
            publication = self.deliver(consumer, consumer.key, operation, publication)
            routed += 1
        if PyTuple_GET_SIZE(self.groups):
            weight = operation.topic_length + operation.reply_length + operation.total + FRAMING
            for each in range(PyTuple_GET_SIZE(groups)):
                share = <tuple>PyTuple_GET_ITEM(groups, each)
                if PyTuple_GET_SIZE(<tuple>PyTuple_GET_ITEM(share, 2)) == 0:
                    continue
                if (<Group>PyTuple_GET_ITEM(share, 0)).name not in self.groups:
                    continue
                consumer = (<Group>PyTuple_GET_ITEM(share, 0)).pick(
                    <tuple>PyTuple_GET_ITEM(share, 2), weight, None, operation.topic, operation.topic_length, None
                )
                if consumer is not None:
                    if not (<Group>PyTuple_GET_ITEM(share, 0)).is_keyed and not has_room(consumer, weight + self.reserve):
                        self.session.nearly_full(self.found[0], (<Group>PyTuple_GET_ITEM(share, 0)).name, share[2])
                    publication = self.deliver(consumer, consumer.key, operation, publication)
                    routed += 1
        if operation.shared != NULL:
            release(operation.shared)
        self.counters.routed += routed
        self.work += routed
        if routed == 0:
            self.counters.strayed += 1
        return 0


cdef Py_ssize_t parse_message(
    const char* at, const char* end, Py_ssize_t longest_line, Py_ssize_t largest,
    Operation* operation, const char** key, Py_ssize_t* key_length, Py_ssize_t* needed,
) noexcept:
    """A MSG or HMSG in its usual form: its length, INCOMPLETE, or ODD."""
    cdef const char* p = at
    cdef const char* word
    cdef bint headers
    cdef const char* line_end = line_after(&p, end, b"MSG ", longest_line, &headers)
    if line_end == NULL:
        return ODD
    word = <const char*>memchr(p, c" ", line_end - p)
    if word == NULL or word == p or p[0] == c"$":
        return ODD
    if word - p == 10 and memcmp(p, b"_FORGOTTEN", 10) == 0:
        return ODD  # not every consumer may receive every producer (A3)
    operation.topic = p
    operation.topic_length = word - p
    p = word + 1
    word = <const char*>memchr(p, c" ", line_end - p)
    if word == NULL or word == p:
        return ODD
    key[0] = p
    key_length[0] = word - p
    p = word + 1
    operation.reply_length = 0
    operation.tail = p
    if not sizes(&p, line_end, headers, operation):
        p = operation.tail
        word = <const char*>memchr(p, c" ", line_end - p)
        if word == NULL or word == p:
            return ODD
        operation.reply = p
        operation.reply_length = word - p
        p = operation.tail = word + 1
        if not sizes(&p, line_end, headers, operation):
            return ODD
    return whole(at, end, line_end, largest, operation, needed)
