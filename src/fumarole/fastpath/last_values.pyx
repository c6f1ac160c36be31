# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The last message of every topic: the copy of exchange/last_values.py, whose tests hold both equal.

Values are an array in the order in which topics first came. A table of places finds one by the hash of its topic. Topic,
headers and payload of a value are one piece of memory, which a message of about the same size is written into again:

    slots    · 2 · · 1 · ·        values   0  time, lengths ──▶ "volcanoes.usa.atka" "" "21.5"
                                           1  time, lengths ──▶ "volcanoes.usa.adak" "" "19"

Messages of one read have one time: a clock is asked once for all of them (`begin`). Of one topic the later one takes the place of the
earlier, and what the session does in between is followed by another `begin`.

Sensors that are read in turn publish in the same order again and again. So each value knows which one followed it the last time, and
that one is tried before the topic is looked up.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_AsUTF8AndSize, PyUnicode_DecodeUTF8
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcmp, memcpy

from fumarole.exchange.last_values import ENTRY_BYTES, NOT_KEPT, WITHOUT_END
from fumarole.exchange.readings import reading_block

from fumarole.fastpath.hashing cimport fumarole_hash_of

cdef Py_ssize_t FIRST_SLOTS = 64
cdef Py_ssize_t SLACK = 64          # bytes that a value may have too many for its message
cdef int MOST_LUCK = 8              # wrong guesses in a row, then topics are looked up until some come in the same order again

# Python's own secret of this process.
cdef uint64_t seed = <uint64_t><Py_ssize_t>hash("fumarole.last") ^ <uint64_t>0x9E3779B97F4A7C15

cdef Py_ssize_t ENTRY = ENTRY_BYTES
assert NOT_KEPT == ("_", "$")


cdef class LastValues:
    def __init__(self, clock, most_bytes=None):
        self.clock = clock
        self.limit(most_bytes)

    def __dealloc__(self):
        cdef Py_ssize_t place
        for place in range(self.used):
            free(self.values[place].data)
        free(self.values)
        free(self.slots)

    def limit(self, most_bytes):
        """No more may be kept; None: no limit."""
        self.most_bytes = WITHOUT_END if most_bytes is None else most_bytes

    def __len__(self):
        return self.used

    def put(self, publication):
        cdef Py_ssize_t length
        cdef const char* topic = PyUnicode_AsUTF8AndSize(publication.topic, &length)
        cdef bytes block = publication.headers or reading_block(publication.reading)
        cdef bytes payload = publication.payload
        self.begin()
        self.keep(
            topic, length, PyBytes_AS_STRING(block), PyBytes_GET_SIZE(block),
            PyBytes_AS_STRING(payload), PyBytes_GET_SIZE(payload),
        )

    def get(self, str topic):
        cdef Py_ssize_t length
        cdef const char* text = PyUnicode_AsUTF8AndSize(topic, &length)
        cdef Py_ssize_t place = self.find(text, length, fumarole_hash_of(seed, text, length))
        return None if place < 0 else self.value(place)

    def some(self, Py_ssize_t begin, Py_ssize_t most, str prefix):
        cdef Py_ssize_t length, place
        cdef const char* text = PyUnicode_AsUTF8AndSize(prefix, &length)
        cdef list found = []
        for place in range(begin, min(begin + most, self.used)):
            if self.values[place].topic >= length and memcmp(self.values[place].data, text, length) == 0:
                found.append(self.value(place))
        return found

    cdef object value(self, Py_ssize_t place):
        cdef Value* value = &self.values[place]
        cdef char* headers = value.data + value.topic
        return (
            PyUnicode_DecodeUTF8(value.data, value.topic, NULL),
            value.time,
            PyBytes_FromStringAndSize(headers, value.headers),
            PyBytes_FromStringAndSize(headers + value.headers, value.payload),
        )

    cdef int begin(self) except -1:
        """Messages are kept from here on with the time that it is now."""
        self.time = self.clock.now()
        return 0

    cdef int keep(
        self, const char* topic, Py_ssize_t topic_length, const char* headers, Py_ssize_t headers_length,
        const char* payload, Py_ssize_t payload_length,
    ) except -1:
        """This is the newest message of its topic."""
        cdef Py_ssize_t place, total = topic_length + headers_length + payload_length
        cdef long long grows = headers_length + payload_length
        cdef uint64_t hash
        cdef Value* value
        cdef char* data
        if topic_length and (topic[0] == c"_" or topic[0] == c"$"):
            return 0
        place = self.guess(topic, topic_length)
        if place < 0:
            hash = fumarole_hash_of(seed, topic, topic_length)
            place = self.find(topic, topic_length, hash)
            if place >= 0:
                if self.values[self.latest].following == place:
                    self.luck = min(self.luck + 1, MOST_LUCK)
                self.values[self.latest].following = place
                self.latest = place
        if place < 0:
            grows += ENTRY + topic_length
        else:
            grows -= <long long>self.values[place].headers + self.values[place].payload
        if self.bytes + grows > self.most_bytes:
            self.refused += 1
            return 0
        if place < 0:
            self.grow()
            data = <char*>malloc(max(total, 1))
            if data == NULL:
                raise MemoryError
            memcpy(data, topic, topic_length)
            place = self.used
            value = &self.values[place]
            value.hash, value.data, value.topic, value.capacity, value.following = hash, data, topic_length, total, 0
            self.used += 1
            self.seat(place)
        else:
            value = &self.values[place]
            if total > value.capacity or value.capacity > 2 * total + SLACK:
                data = <char*>realloc(value.data, max(total, 1))
                if data == NULL:
                    raise MemoryError
                value.data, value.capacity = data, total
        memcpy(value.data + topic_length, headers, headers_length)
        memcpy(value.data + topic_length + headers_length, payload, payload_length)
        value.headers, value.payload, value.time = headers_length, payload_length, self.time
        self.bytes += grows
        return 0

    cdef Py_ssize_t guess(self, const char* topic, Py_ssize_t length) noexcept:
        """The place after the latest, as the last time, if it has this topic; else -1. Sensors that are read in turn keep
        their order."""
        cdef Py_ssize_t place
        if self.luck <= 0:
            return -1
        place = self.values[self.latest].following
        if self.values[place].topic == length and memcmp(self.values[place].data, topic, length) == 0:
            self.latest = place
            return place
        self.luck -= 1
        return -1

    cdef Py_ssize_t find(self, const char* topic, Py_ssize_t length, uint64_t hash) noexcept:
        """The place of a topic; -1: it has none."""
        cdef Py_ssize_t at
        cdef Value* value
        if self.slot_count == 0:
            return -1
        at = hash & (self.slot_count - 1)
        while self.slots[at]:
            value = &self.values[self.slots[at] - 1]
            if value.hash == hash and value.topic == length and memcmp(value.data, topic, length) == 0:
                return self.slots[at] - 1
            at = (at + 1) & (self.slot_count - 1)
        return -1

    cdef void seat(self, Py_ssize_t place) noexcept:
        """Puts a place into the slot of its hash, or the next free one."""
        cdef Py_ssize_t at = self.values[place].hash & (self.slot_count - 1)
        while self.slots[at]:
            at = (at + 1) & (self.slot_count - 1)
        self.slots[at] = place + 1

    cdef int grow(self) except -1:
        """Makes room for one more."""
        cdef Py_ssize_t capacity, place
        cdef void* grown
        if self.used == self.capacity:
            capacity = max(FIRST_SLOTS, self.capacity + self.capacity // 2)
            grown = realloc(self.values, capacity * sizeof(Value))
            if grown == NULL:
                raise MemoryError
            self.values, self.capacity = <Value*>grown, capacity
        if 4 * (self.used + 1) > 3 * self.slot_count:
            capacity = max(FIRST_SLOTS, 2 * self.slot_count)
            grown = calloc(capacity, sizeof(uint32_t))
            if grown == NULL:
                raise MemoryError
            free(self.slots)
            self.slots, self.slot_count = <uint32_t*>grown, capacity
            for place in range(self.used):
                self.seat(place)
        return 0
