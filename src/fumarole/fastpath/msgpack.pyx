# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The hot loop of the MsgPack door: readings, from the read buffer to the outboxes.

It is the fused copy of protocols/msgpack.py (where a value ends), sessions/msgpack.py (meaning), exchange/producers.py and
exchange/exchange.py (routing), for the one value that comes by the million, in the form in which every MsgPack library writes it:

    93 d9 24 <36 bytes of a UUID> 80 <a number>          ["2f1c…", {}, 21.5]

from a producer that is known, on a topic whose plan is known. It leaves as it came (M6). A short map may stand in place of the empty
one (80): what it brings is merged by the exchange. A map that is the same as the last one over the same metadata brings nothing.
Everything else is handed value by value to the session, which is the definition; so this loop has no errors of its own to report.
tests/fastpath holds both equal.
"""

import json

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItem, PyDict_Next
from cpython.float cimport PyFloat_CheckExact
from cpython.long cimport PyLong_AsLongLongAndOverflow
from cpython.ref cimport PyObject
from cpython.set cimport PySet_Contains
from cpython.tuple cimport PyTuple_Check, PyTuple_GET_ITEM, PyTuple_GET_SIZE
from cpython.unicode cimport PyUnicode_AsUTF8AndSize, PyUnicode_DecodeASCII, PyUnicode_DecodeUTF8
from libc.math cimport isfinite
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint32_t, uint64_t
from libc.stdio cimport sprintf
from libc.string cimport memcpy

from fumarole.fastpath.nats cimport (
    INCOMPLETE, ODD, WORK_AT_ONCE, WORK_OF_A_DIFF, WORK_OF_A_HAND_OVER, WORK_OF_THE_SESSION
)
from fumarole.fastpath.outbox cimport Consumer, Counters, Outbox
from fumarole.fastpath.pieces cimport Pieces
from fumarole.fastpath.plans cimport Group, Plan, Plans, all_here
from fumarole.fastpath.texts cimport Slice, is_text

from fumarole.core.errors import FumaroleError
from fumarole.core.publication import FRAMING as PURE_FRAMING
from fumarole.core.query.evaluation import Unprepared
from fumarole.core.query.message import Message
from fumarole.core.values import ONLINE
from fumarole.exchange.quotas import QuotaError
from fumarole.exchange.readings import Reading, reading_block, reading_topic
from fumarole.sessions.msgpack import published
from fumarole.sessions.stream import State

cdef Py_ssize_t FRAMING = PURE_FRAMING
cdef object CLOSED = State.CLOSED
cdef object OPEN = State.OPEN
cdef dict NOTHING = {}

cdef extern from *:
    """
    #define IDENTITY 36
    #define HEAD 40                 /* 93 d9 24, the identity, 80 */
    #define PREFIX 9                /* "readings." */
    #define LONGEST 1024            /* bytes of a usual reading */
    #define LONGEST_NUMBER 9
    #define LONGEST_JSON 2048       /* of the metadata of such a reading: 15 entries at most */
    #define SHORT 4096              /* bytes of a value that is handed over alone */
    #define ITEMS 4096
    #define VERB 4                  /* "MSG " */
    #define LINE_END 2
    #define LONGEST_TEXT 32         /* characters of a number */
    """
    const Py_ssize_t IDENTITY, HEAD, PREFIX, LONGEST, LONGEST_NUMBER, LONGEST_JSON, SHORT, ITEMS, VERB, LINE_END, LONGEST_TEXT

assert reading_topic("") == "readings."

# Of a reading at the NATS door: its headers around the identity, and the sizes of its frame by the length of its text.
cdef bytes BLOCK_BEGINS, BLOCK_ENDS
BLOCK_BEGINS, BLOCK_ENDS = reading_block(Reading("=" * IDENTITY, {}, 0)).split(b"=" * IDENTITY)
cdef bytes METADATA_BEGINS = reading_block(Reading("=" * IDENTITY, {"=": 0}, 0)).split(b"=" * IDENTITY)[1].split(b"{")[0]
cdef Py_ssize_t BLOCK = PyBytes_GET_SIZE(BLOCK_BEGINS) + IDENTITY + PyBytes_GET_SIZE(BLOCK_ENDS)
cdef list SIZES = [b" %d %d\r\n" % (BLOCK, BLOCK + length) for length in range(LONGEST_TEXT)]
cdef list PLAIN_SIZES = [b" %d\r\n" % length for length in range(LONGEST_TEXT)]


cdef inline char* written(char* place, bytes text) noexcept:
    """Behind the text."""
    memcpy(place, PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))
    return place + PyBytes_GET_SIZE(text)


cdef inline uint64_t big_endian(const unsigned char* at, int width) noexcept:
    cdef uint64_t value = 0
    cdef int each
    for each in range(width):
        value = value << 8 | at[each]
    return value


cdef inline int number_width(unsigned char first) noexcept:
    """Bytes that follow the first one of a number; -1: it is none."""
    if first < 0x80 or first >= 0xE0:
        return 0
    if first == 0xCA:
        return 4
    if first == 0xCB:
        return 8
    if 0xCC <= first <= 0xCF:
        return 1 << (first - 0xCC)
    if 0xD0 <= first <= 0xD3:
        return 1 << (first - 0xD0)
    return -1


cdef object number(const unsigned char* at):
    """The number that stands here, as Python has it; None: it is NaN or an infinity."""
    cdef unsigned char first = at[0]
    cdef uint64_t bits
    cdef uint32_t short_bits
    cdef double value
    cdef float short_value
    if first < 0x80:
        return first
    if first >= 0xE0:
        return <int8_t>first
    bits = big_endian(at + 1, number_width(first))
    if first == 0xCB:
        memcpy(&value, &bits, 8)
        return value if isfinite(value) else None
    if first == 0xCA:
        short_bits = <uint32_t>bits
        memcpy(&short_value, &short_bits, 4)
        return <double>short_value if isfinite(short_value) else None
    if first <= 0xCF:
        return bits
    if first == 0xD0:
        return <int8_t>bits
    if first == 0xD1:
        return <int16_t>bits
    if first == 0xD2:
        return <int32_t>bits
    return <int64_t>bits


cdef Py_ssize_t measured(const unsigned char* at, const unsigned char* end) noexcept:
    """How long the value is that begins here, INCOMPLETE, or ODD: too long or too much for this place, or none at all."""
    cdef const unsigned char* p = at
    cdef Py_ssize_t values = 1, seen = 0
    cdef unsigned char first
    cdef int width
    while values:
        if p >= end:
            return INCOMPLETE
        first = p[0]
        values -= 1
        seen += 1
        width = number_width(first)
        if width >= 0:
            p += 1 + width
        elif first < 0x90:
            p += 1
            values += 2 * (first & 0x0F)
        elif first < 0xA0:
            p += 1
            values += first & 0x0F
        elif first < 0xC0:
            p += 1 + (first & 0x1F)
        elif first == 0xC0 or first == 0xC2 or first == 0xC3:
            p += 1
        elif 0xC4 <= first <= 0xC6 or 0xD9 <= first <= 0xDB:
            width = 1 << (first - (0xC4 if first <= 0xC6 else 0xD9))
            if end - p < 1 + width:
                return INCOMPLETE
            p += 1 + width + big_endian(p + 1, width)
        elif 0xDC <= first <= 0xDF:
            width = 2 if first == 0xDC or first == 0xDE else 4
            if end - p < 1 + width:
                return INCOMPLETE
            values += <Py_ssize_t>big_endian(p + 1, width) * (1 if first <= 0xDD else 2)
            p += 1 + width
        else:
            return ODD
        if seen + values > ITEMS or p - at > SHORT:
            return ODD
    return p - at if p <= end else INCOMPLETE


cdef inline Py_ssize_t metadata_end(const unsigned char* at, const unsigned char* end, Py_ssize_t longest) noexcept:
    """How far the number of a reading is from its beginning, behind a map that is not empty; INCOMPLETE; or ODD: the session has to look."""
    cdef const unsigned char* p = at + HEAD
    cdef int left = 2 * (at[HEAD - 1] & 0x0F)   # keys and values that are still to come: an even number, and a key is next
    cdef unsigned char first
    if at[HEAD - 1] & 0xF0 != 0x80:
        return ODD
    while left:
        if p >= end:
            return INCOMPLETE
        first = p[0]
        if 0xA0 <= first < 0xC0:
            p += 1 + (first & 0x1F)
        elif first == 0xD9:
            if end - p < 2:
                return INCOMPLETE
            p += 2 + p[1]
        elif not left & 1:
            return ODD
        elif number_width(first) >= 0:
            p += 1 + number_width(first)
        elif first == 0xC0 or first == 0xC2 or first == 0xC3:
            p += 1
        else:
            return ODD
        left -= 1
        if p - at > longest - LONGEST_NUMBER:
            return ODD
    return p - at if p < end else INCOMPLETE


cdef inline str text_from(const unsigned char** at):
    """The text that stands here. `at` is moved behind it."""
    cdef Py_ssize_t length = at[0][1] if at[0][0] == 0xD9 else at[0][0] & 0x1F
    cdef const char* begin = <const char*>at[0] + (2 if at[0][0] == 0xD9 else 1)
    at[0] = <const unsigned char*>begin + length
    return PyUnicode_DecodeUTF8(begin, length, NULL)


cdef dict metadata_in(Slice map):
    """What a map that `metadata_end` has measured brings, as the session checks it; None: something is wrong with it."""
    cdef const unsigned char* p = <const unsigned char*>map.at + 1
    cdef int each
    cdef dict made = {}
    cdef object value
    for each in range(map.at[0] & 0x0F):
        try:
            key = text_from(&p)
            value = text_from(&p) if 0xA0 <= p[0] < 0xC0 or p[0] == 0xD9 else None
        except UnicodeDecodeError:
            return None
        if value is None:
            if number_width(p[0]) >= 0:
                value = number(p)
                if value is None:
                    return None
                p += 1 + number_width(p[0])
            else:
                value = None if p[0] == 0xC0 else p[0] == 0xC3
                p += 1
        made[key] = value
    return made


cdef char* quoted(char* place, object text) except? NULL:
    """Behind the text in JSON; NULL: it has letters that JSON writes in another way."""
    cdef Py_ssize_t length = 0, each
    cdef const char* letters = PyUnicode_AsUTF8AndSize(text, &length)
    place[0] = c'"'
    for each in range(length):
        if not c" " <= letters[each] <= c"~" or letters[each] == c'"' or letters[each] == c"\\":
            return NULL
        place[1 + each] = letters[each]
    place[1 + length] = c'"'
    return place + length + 2


cdef char* value_in_json(char* place, object value) except? NULL:
    """Behind it; NULL: it is to be written by others."""
    cdef int overflow = 0
    cdef long long whole
    if value is None:
        return written(place, b"null")
    if value is True or value is False:
        return written(place, b"true" if value is True else b"false")
    if type(value) is str:
        return quoted(place, value)
    if PyFloat_CheckExact(value):
        return written(place, repr(value).encode())
    whole = PyLong_AsLongLongAndOverflow(value, &overflow)
    return NULL if overflow else place + sprintf(place, "%lld", whole)


cdef bytes in_json(dict metadata):
    """Metadata as `reading_block` writes it."""
    cdef char buffer[LONGEST_JSON]
    cdef char* place = buffer
    cdef Py_ssize_t at = 0
    cdef PyObject* key
    cdef PyObject* value
    place[0] = c"{"
    while PyDict_Next(metadata, &at, &key, &value):
        place = quoted(written(place, b", ") if place != buffer else place + 1, <object>key)
        if place != NULL:
            place = value_in_json(written(place, b": "), <object>value)
        if place == NULL:
            return json.dumps(metadata).encode()
    place[0] = c"}"
    return buffer[:place + 1 - buffer]


cdef inline bint beginning(const unsigned char* at, const unsigned char* end, Py_ssize_t longest) noexcept:
    """May these bytes become a usual reading?"""
    cdef Py_ssize_t length = end - at, head = HEAD
    if length >= HEAD and at[HEAD - 1] != 0x80:
        head = metadata_end(at, end, longest)
        if head == ODD:
            return False
        if head == INCOMPLETE:
            head = length
    return (
        at[0] == 0x93
        and (length < 2 or at[1] == 0xD9)
        and (length < 3 or at[2] == IDENTITY)
        and (length <= head or number_width(at[head]) >= 0)
    )


cdef class MsgPackReader:
    """Stands before a session and takes its bytes."""

    cdef object session, exchange, producers
    cdef dict known
    cdef set spoken_for         # of these, what the connection has spoken for
    cdef Plans plans
    cdef Counters counters
    cdef Outbox outbox
    cdef bint echo
    cdef Py_ssize_t work        # done since the loop was last given a turn: about so many messages
    cdef bytes rest             # what came and was not yet looked at: put off, or the beginning of a value
    cdef bint put_off
    cdef char topic[PREFIX + IDENTITY]
    cdef Py_ssize_t longest     # bytes of a usual reading
    cdef Slice map              # what this reading brings, as it stands in the buffer; NULL: nothing
    cdef dict brought           # the same; None: it was not asked for
    cdef bytes text             # the value of this reading at other doors; None: it was not asked for
    cdef bytes ending           # what follows the sid in its frame for NATS clients, if it brings metadata; None: not asked for

    def __init__(self, session):
        self.session = session
        self.outbox = session.outbox
        self.rest = b""
        self.longest = min(LONGEST, <Py_ssize_t>session.node.limits.msgpack_value)
        memcpy(self.topic, b"readings.", PREFIX)

    def receive_data(self, data):
        """Bytes from the client, cut anywhere."""
        cdef Py_buffer view
        cdef bytes all
        self.session.heard = True
        self.work = 0
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            if self.rest:
                self.put_off = False
                all = self.rest + PyBytes_FromStringAndSize(<const char*>view.buf, view.len)
                self.rest = b""
                self.consume(PyBytes_AS_STRING(all), PyBytes_GET_SIZE(all))
            else:
                self.consume(<const char*>view.buf, view.len)
        finally:
            PyBuffer_Release(&view)

    @property
    def unfinished(self):
        """Was something put off? A reading can go to very many; others want their turn."""
        return self.put_off or self.session.unfinished

    def go_on(self):
        """With what was put off."""
        cdef bytes rest = self.rest
        self.work = 0
        self.put_off = False
        if self.session.unfinished:
            self.session.go_on()
            self.take_back()
        elif rest:
            self.rest = b""
            self.consume(PyBytes_AS_STRING(rest), PyBytes_GET_SIZE(rest))

    cdef bint ready(self) except -1:
        """Is the session one whose readings are taken here?"""
        session = self.session
        if not session.publishes or session.state is not OPEN or session.wanted() or session.unfinished:
            return False
        if session.claim is not None or session.account.has_rates:  # a change is prepared, or messages are counted
            return False
        self.spoken_for = session.speaking.producers
        if self.exchange is not session.exchange:
            self.exchange = session.exchange
            self.producers = self.exchange.producers
            self.known = self.producers.known
            self.counters = self.exchange.counters
            self.plans = session.plans
            self.echo = session.echo
        return not self.producers.filling  # until all sets are whole, each producer is looked at first

    cdef int consume(self, const char* data, Py_ssize_t length) except -1:
        """Everything that is whole; what is left is kept."""
        cdef const unsigned char* at = <const unsigned char*>data
        cdef const unsigned char* end = at + length
        cdef Py_ssize_t size
        while at < end:
            if not self.ready():
                self.session.receive_data(PyBytes_FromStringAndSize(<const char*>at, end - at))
                self.take_back()
                return 0
            size = self.run(at, end)
            at += size
            if at == end:
                return 0
            if self.work >= WORK_AT_ONCE:
                self.put_off = True
            else:
                size = measured(at, end)
                if size != INCOMPLETE or not beginning(at, end, self.longest):
                    if size == INCOMPLETE or size == ODD:
                        size = end - at  # all of it: the session finds out what it is
                    self.session.receive_data(PyBytes_FromStringAndSize(<const char*>at, size))
                    self.work += WORK_OF_A_HAND_OVER + <Py_ssize_t>self.session.spent * WORK_OF_THE_SESSION
                    at += size
                    if self.session.unfinished or self.session.wanted():
                        self.take_back()
                    continue
            self.rest = PyBytes_FromStringAndSize(<const char*>at, end - at)
            return 0
        return 0

    cdef int take_back(self) except -1:
        """The session has kept the beginning of a value. If that may be a usual reading, it is completed here."""
        cdef bytes kept
        cdef const unsigned char* at
        session = self.session
        if session.claim is not None:
            return 0
        if session.publishes and session.state is OPEN and not session.unfinished and 0 < session.pending < LONGEST:
            kept = session.reclaim()
            at = <const unsigned char*>PyBytes_AS_STRING(kept)
            if beginning(at, at + PyBytes_GET_SIZE(kept), self.longest):
                self.rest = kept
            else:
                session.receive_data(kept)
        return 0

    cdef Py_ssize_t run(self, const unsigned char* data, const unsigned char* end) except -1:
        """The readings in their usual form, one after another; how many bytes they were."""
        cdef const unsigned char* at = data
        cdef Py_ssize_t size, head
        cdef int width
        cdef PyObject* found
        cdef Plan plan
        cdef object producer, value, told, now = self.session.now
        while end - at > HEAD and self.work < WORK_AT_ONCE:
            if at[0] != 0x93 or at[1] != 0xD9 or at[2] != IDENTITY:
                break
            head = HEAD if at[HEAD - 1] == 0x80 else metadata_end(at, end, self.longest)
            if head == INCOMPLETE or head == ODD:
                break
            width = number_width(at[head])
            size = head + 1 + width
            if width < 0 or end - at < size:
                break
            identity = PyUnicode_DecodeASCII(<const char*>at + 3, IDENTITY, "replace")
            found = PyDict_GetItem(self.known, identity)
            if found == NULL:
                break
            producer = <object>found
            if not PySet_Contains(self.spoken_for, producer):  # its first reading on this connection puts it online (F5)
                break
            value = number(at + head)
            if value is None or PyTuple_Check(producer.value):  # the last was on another topic: others may receive it now
                break
            memcpy(self.topic + PREFIX, at + 3, IDENTITY)
            plan = self.plans.known(self.topic, PREFIX + IDENTITY)
            if plan is None:
                break
            self.map.at, self.map.length = NULL, 0
            told = None
            if head > HEAD:
                self.map.at, self.map.length = <const char*>at + HEAD - 1, head - HEAD + 1
                self.brought = None
                told = self.producers.told
                if not self.has_said(producer) and not self.merge(producer, identity, now):
                    break
            producer.heard = now
            producer.value = value
            if told is not None and self.producers.told != told:  # a consumer that got a diff may have been cut off
                plan = self.exchange.plan_for(producer, self.topic[:PREFIX + IDENTITY], self.plans)
            elif producer.standings:
                plan = self.plans.joined(plan, producer, self.producers, self.topic, PREFIX + IDENTITY)
            if plan.filters is not None:
                plan = self.passed(plan.filters, producer, identity, value, <const char*>at, size)
            self.publish(plan, identity, value, <const char*>at, size)
            at += size
        return at - data

    cdef bint has_said(self, object producer) except -1:
        """Was this map merged into the producer's metadata last, as it is now?"""
        cdef object said = producer.said
        if said is None or (<tuple>said)[1] is not producer.metadata:
            return False
        return is_text(self.map, PyBytes_AS_STRING((<tuple>said)[0]), PyBytes_GET_SIZE((<tuple>said)[0]))

    cdef bint merge(self, object producer, identity, now) except -1:
        """Merges what the map brings, and tells those whose set changes (M5). False: something is wrong with it."""
        told = self.producers.told
        self.brought = metadata_in(self.map)
        if self.brought is None or ONLINE in self.brought:  # left out of the message too
            return False
        try:
            self.producers.describe(identity, self.brought, now, self.session.account)
        except QuotaError as error:  # the session says why, and counts it
            error.uncount()
            return False
        except (FumaroleError, Unprepared):  # the session says why, or waits
            return False
        producer.said = self.map.at[:self.map.length], producer.metadata
        self.work += WORK_OF_A_HAND_OVER + WORK_OF_THE_SESSION * WORK_OF_A_DIFF * <Py_ssize_t>(self.producers.told - told)
        return True

    cdef dict metadata(self):
        """What this reading brings."""
        if self.map.at == NULL:
            return NOTHING
        if self.brought is None:
            self.brought = metadata_in(self.map)
        return self.brought

    cdef Plan passed(self, filters, producer, identity, value, const char* raw, Py_ssize_t length):
        """The plan of this reading, where a query tests its value or more."""
        cdef Pieces pieces = filters.pieces
        cdef Plan plan = None
        if pieces is not None:
            self.work += 1
            plan = pieces.of_value(value if pieces.cuts.is_value else None)  # a number has no fields
        if plan is None:
            self.work += <Py_ssize_t>filters.work(length)
            publication = self.publication(identity, value, raw, length)
            plan = filters.plan_of(Message(publication, producer.metadata, filters.reads))
        return plan

    cdef int publish(self, Plan plan, identity, value, const char* raw, Py_ssize_t length) except -1:
        cdef Py_ssize_t routed = 0, each
        cdef tuple share
        cdef Consumer consumer
        cdef object publication = None
        cdef tuple consumers = plan.consumers, groups = plan.groups
        self.text = self.ending = None
        if not all_here(plan):
            publication = self.publication(identity, value, raw, length)
            self.work += <Py_ssize_t>self.exchange.publish(plan, publication, self.session) + 1
            return 0
        if self.exchange.last_values is not None:
            publication = self.publication(identity, value, raw, length)
            self.exchange.last_values.put(publication)
        for each in range(PyTuple_GET_SIZE(consumers)):
            consumer = <Consumer>PyTuple_GET_ITEM(consumers, each)
            if consumer.outlet is not self.session or self.echo:
                publication = self.deliver(consumer, identity, value, raw, length, publication)
                routed += 1
        for each in range(PyTuple_GET_SIZE(groups)):
            share = <tuple>PyTuple_GET_ITEM(groups, each)
            consumer = (<Group>PyTuple_GET_ITEM(share, 0)).pick(
                <tuple>PyTuple_GET_ITEM(share, 1), PREFIX + IDENTITY + length + FRAMING, self.session,
                self.topic, PREFIX + IDENTITY, identity,
            )
            if consumer is not None:
                publication = self.deliver(consumer, identity, value, raw, length, publication)
                routed += 1
        self.counters.received += 1
        self.counters.received_bytes += length
        self.counters.routed += routed
        if routed == 0:
            self.counters.unheard += 1
        self.work += routed + 1
        return 0

    cdef int send_to_nats(self, Consumer consumer, const char* identity, value) except -1:
        """The frame that `sessions/nats.py` makes of a reading (M8)."""
        cdef bint headers = consumer.outbox.takes_headers
        cdef bytes sizes
        cdef Py_ssize_t rest = LINE_END
        cdef char* place
        if self.text is None:
            self.text = str(value).encode()
        if headers and self.map.at != NULL:
            if self.ending is None:
                self.ending = self.with_metadata(identity)
            sizes = self.ending
        else:
            sizes = (SIZES if headers else PLAIN_SIZES)[PyBytes_GET_SIZE(self.text)]
            rest += (BLOCK if headers else 0) + PyBytes_GET_SIZE(self.text)
        consumer.accepted += 1
        place = consumer.outbox.reserve(
            headers + VERB + PREFIX + IDENTITY + 1 + PyBytes_GET_SIZE(consumer.key) + PyBytes_GET_SIZE(sizes) + rest, consumer
        )
        if place != NULL:
            if headers:
                place[0] = c"H"
                place += 1
            memcpy(place, b"MSG ", VERB)
            memcpy(place + VERB, self.topic, PREFIX + IDENTITY)
            place += VERB + PREFIX + IDENTITY
            place[0] = c" "
            place = written(written(place + 1, consumer.key), sizes)
            if sizes is not self.ending:
                if headers:
                    place = written(place, BLOCK_BEGINS)
                    memcpy(place, identity, IDENTITY)
                    place = written(place + IDENTITY, BLOCK_ENDS)
                place = written(place, self.text)
            memcpy(place, b"\r\n", LINE_END)
        if consumer.limit and consumer.accepted >= consumer.limit:
            consumer.outlet.expire(consumer)
        return 0

    cdef bytes with_metadata(self, const char* identity):
        """What follows the sid in the frame of a reading that brings metadata: sizes, headers and text."""
        cdef bytes said = in_json(self.metadata())
        cdef Py_ssize_t block = BLOCK + PyBytes_GET_SIZE(METADATA_BEGINS) + PyBytes_GET_SIZE(said)
        return b"".join((
            b" %d %d\r\n" % (block, block + PyBytes_GET_SIZE(self.text)),
            BLOCK_BEGINS, identity[:IDENTITY], METADATA_BEGINS, said, BLOCK_ENDS, self.text,
        ))

    cdef object publication(self, identity, value, const char* raw, Py_ssize_t length):
        reading = Reading(identity, self.metadata(), value, PyBytes_FromStringAndSize(raw, length))
        return published(reading, reading_topic(identity))

    cdef object deliver(self, Consumer consumer, identity, value, const char* raw, Py_ssize_t length, object publication):
        """One reading to one consumer. Of another door than NATS, or with diffs to catch up on: its outlet gets the
        publication (made once)."""
        cdef Outbox outbox = consumer.readings
        cdef char* place
        if consumer.outbox is not None and consumer.held is None:
            self.send_to_nats(consumer, raw + 3, value)
            return publication
        if outbox is None or outbox.late:
            if publication is None:
                publication = self.publication(identity, value, raw, length)
            (consumer.outlet if consumer.passes is None else consumer.passes).accept(consumer, publication)
            return publication
        consumer.accepted += 1
        place = outbox.reserve(length, consumer)
        if place != NULL:
            memcpy(place, raw, length)
        return publication
