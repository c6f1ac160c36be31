# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""From a topic to its consumers: exchange/plans.py and exchange/groups.py, compiled.

Plans are kept in a hash table with open addressing; the topics' bytes stand one after another in a single piece of memory. When
there are too many, all are forgotten at once and learned again as they come: an old plan costs one look into the index, and
nothing has to be kept in order of use.

Stamps (see exchange/plans.py) are kept by the hash of the prefix, in a table that does not grow: two prefixes in one place
make a plan look older than it is, which costs a look into the index and is never wrong.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.ref cimport Py_INCREF, Py_XDECREF, PyObject
from cpython.unicode cimport PyUnicode_DecodeASCII
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcmp, memcpy, memset

from fumarole.fastpath.index cimport Index, Level

from fumarole.core.publication import INBOX, PRIVATE, is_reserved
from fumarole.core.topic import Grammar, check_topic
from fumarole.exchange.groups import BY_PRODUCER, Seats, is_keyed, key_of
from fumarole.exchange.plans import SHOWN_TOPIC, Denied, decode_topic

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    #include <endian.h>

    #define PLANS_KEPT 131072
    #define TOPICS_KEPT (16 * 1024 * 1024)
    #define SHARED_PLANS_KEPT 4096
    #define FIRST_CAPACITY 256
    #define STAMPS 8192
    #define FEW_LEVELS 64
    #define STEP 0x9E3779B1u

    static uint64_t fumarole_seed = 0x9E3779B97F4A7C15ull;

    static inline uint64_t fumarole_mix(uint64_t a, uint64_t b) {
        __uint128_t product = (__uint128_t)a * b;
        return (uint64_t)product ^ (uint64_t)(product >> 64);
    }

    /* A fast seeded hash of a short text: eight bytes at a time, each folded in by a full multiplication. */
    static inline uint64_t fumarole_hash_from(uint64_t seed, const char* text, Py_ssize_t length) {
        uint64_t hash = seed ^ ((uint64_t)length * 0xA0761D6478BD642Full), word;
        while (length >= 8) {
            memcpy(&word, text, 8);
            hash = fumarole_mix(hash ^ le64toh(word), 0xE7037ED1A0B428DBull);
            text += 8;
            length -= 8;
        }
        if (length) {
            word = 0;
            memcpy(&word, text, length);
            hash = fumarole_mix(hash ^ le64toh(word), 0x8EBC6AF09C88C6E3ull);
        }
        return fumarole_mix(hash, 0x589965CC75374CC3ull);
    }

    static inline uint64_t fumarole_hash(const char* text, Py_ssize_t length) {
        return fumarole_hash_from(fumarole_seed, text, length);
    }

    /* core/stable_hash.py: the same in every process. */
    static inline uint64_t fumarole_stable_hash(const char* text, Py_ssize_t length) {
        return fumarole_hash_from(0x9E3779B97F4A7C15ull, text, length);
    }

    static inline uint64_t fumarole_score(uint64_t member, uint64_t key) {
        return fumarole_mix(member ^ key, 0xD6E8FEB86659FD93ull);
    }
    """
    const Py_ssize_t PLANS_KEPT, TOPICS_KEPT, SHARED_PLANS_KEPT, FIRST_CAPACITY, STAMPS, FEW_LEVELS
    const uint32_t STEP
    uint64_t fumarole_seed
    uint64_t fumarole_hash(const char* text, Py_ssize_t length) nogil
    uint64_t fumarole_stable_hash(const char* text, Py_ssize_t length) nogil
    uint64_t fumarole_score(uint64_t member, uint64_t key) nogil

# Python's own secret of this process: no client can choose topics whose hashes collide.
fumarole_seed ^= <uint64_t><Py_ssize_t>hash("fumarole")


cdef inline bint all_strict(const char* text, Py_ssize_t length) noexcept:
    cdef Py_ssize_t at
    for at in range(length):
        if not fumarole_strict[<unsigned char>text[at]]:
            return False
    return True


assert PRIVATE == "_WHERE." and INBOX == "_INBOX."


cdef inline bint is_hidden(const char* topic, Py_ssize_t length) noexcept:
    """Is it one that no wildcard finds?"""
    return length >= 7 and topic[0] == c"_" and (memcmp(topic, b"_WHERE.", 7) == 0 or memcmp(topic, b"_INBOX.", 7) == 0)


cdef class Group:
    def __init__(self, name):
        self.name = name
        self.is_keyed = is_keyed(name)
        self.by_producer = name.endswith(BY_PRODUCER)
        self.seats = Seats() if self.is_keyed else None

    def choose(self, tuple members, Py_ssize_t weight, origin, publication):
        if self.is_keyed:
            return self.seated(members, origin, key_of(self.name, publication))
        return self.pick(members, weight, origin, NULL, 0, None)

    cdef Consumer seated(self, tuple members, object origin, uint64_t key):
        """The choice by key (F8): the member with the highest score."""
        cdef Consumer member, best = None
        cdef uint64_t drawn, highest = 0
        cdef Py_ssize_t each
        for each in range(PyTuple_GET_SIZE(members)):
            member = <Consumer>PyTuple_GET_ITEM(members, each)
            drawn = fumarole_score(member.seat_hash, key)
            if (best is None or drawn > highest) and may_hear(member, origin):
                best, highest = member, drawn
        return best

    cdef Consumer pick(
        self, tuple members, Py_ssize_t weight, object origin, const char* topic, Py_ssize_t length, object identity
    ):
        """The member that gets a message on this topic, of this producer; None: of none."""
        cdef Py_ssize_t count = PyTuple_GET_SIZE(members)
        cdef Consumer member
        cdef bytes name
        if self.is_keyed:
            if self.by_producer and identity is not None:
                name = (<str>identity).encode()
                return self.seated(members, origin, fumarole_stable_hash(name, PyBytes_GET_SIZE(name)))
            return self.seated(members, origin, fumarole_stable_hash(topic, length))
        self.turn += STEP
        member = <Consumer>PyTuple_GET_ITEM(members, <Py_ssize_t>((<uint64_t>self.turn * <uint64_t>count) >> 32))
        if may_hear(member, origin) and has_room(member, weight):
            return member
        others = [each for each in members if may_hear(<Consumer>each, origin)]
        chosen = [each for each in others if has_room(<Consumer>each, weight)] or others
        return chosen[self.turn * len(chosen) >> 32] if chosen else None


cdef inline bint may_hear(Consumer member, object origin) except -1:
    return member.outlet is not origin or member.outlet.echo


cdef class Plan:
    def __init__(self, tuple consumers=(), tuple groups=(), tuple levels=(), tuple couriers=()):
        self.consumers = consumers
        self.groups = groups
        self.levels = levels
        self.couriers = couriers
        self.version = self.filled = -1
        self.inbox = ""


cdef inline Entry* place(Plans plans, const char* topic, Py_ssize_t length, uint64_t hash) noexcept:
    """The entry of a topic, or the free one that would be its. NULL: there are none at all."""
    cdef Py_ssize_t at = hash & (plans.capacity - 1)
    cdef Entry* entry = NULL
    while plans.capacity:
        entry = &plans.entries[at]
        if entry.plan == NULL:
            break
        if entry.hash == hash and entry.length == length and memcmp(plans.keys + entry.key, topic, length) == 0:
            break
        at = (at + 1) & (plans.capacity - 1)
    return entry


cdef class Plans:
    def __cinit__(self):
        self.stamps = <uint64_t*>calloc(STAMPS, sizeof(uint64_t))
        if self.stamps == NULL:
            raise MemoryError

    def __init__(self, exchange, permissions, bint is_own=False):
        self.exchange = exchange
        self.index = exchange.index
        self.shared = exchange.shared
        self.grammar = exchange.grammar
        self.strict = exchange.grammar is Grammar.STRICT
        self.permissions = permissions
        self.is_own = is_own

    def __dealloc__(self):
        self.clear()
        free(self.entries)
        free(self.keys)
        free(self.stamps)

    def age(self):
        """A consumer came or went."""
        self.changes += 1
        if self.changes >= self.used:
            self.clear()

    def touch(self, str prefix):
        """There is a new pattern with this literal prefix."""
        cdef bytes text = prefix.encode()
        self.generation += 1
        if prefix:
            self.stamps[fumarole_hash(text, len(text)) % STAMPS] = self.generation
        else:
            self.widest_stamp = self.generation

    def find(self, bytes topic):
        """The plan of a topic. Raises TopicError or Denied where it may not be published."""
        return self.known(topic, len(topic)) or self.learn(topic, len(topic))

    cdef Plan known(self, const char* topic, Py_ssize_t length):
        """The plan of a topic that was asked for before, if it is still right as it is; else None, and `learn` sees to it."""
        cdef Entry* entry = place(self, topic, length, fumarole_hash(topic, length))
        cdef Plan plan
        if entry == NULL or entry.plan == NULL:
            return None
        if entry.made != self.generation:
            if not self.still_holds(topic, length, entry.made):
                return None
            entry.made = self.generation
        plan = <Plan>entry.plan
        return plan if plan.version == self.index.version or self.unchanged(plan) else None

    cdef Plan learn(self, const char* topic, Py_ssize_t length):
        """Works out the plan of a topic that is not `known`, or renews it, and keeps it."""
        cdef uint64_t hash = fumarole_hash(topic, length)
        cdef Entry* entry = place(self, topic, length, hash)
        cdef Plan plan
        cdef str text
        if entry != NULL and entry.plan != NULL and entry.made == self.generation:
            plan = <Plan>entry.plan
            if self.exchange.renew(plan):
                return plan
        if self.strict and all_strict(topic, length):
            text = PyUnicode_DecodeASCII(topic, length, NULL)
        else:
            text = decode_topic(PyBytes_FromStringAndSize(topic, length))
            check_topic(text, self.grammar)
        if self.permissions is not None and not self.permissions.allows(text):
            raise Denied(text)
        if not self.is_own and length and topic[0] == c"_" and is_reserved(text):
            raise Denied(text, f"only the server publishes to {text[:SHOWN_TOPIC]}")
        cdef uint64_t made = self.generation
        plan = self.exchange.plan(text) if is_hidden(topic, length) else self.work_out(text)
        if self.used >= PLANS_KEPT or self.keys_used + length > TOPICS_KEPT:
            self.clear()
        if 4 * self.used >= 3 * self.capacity:
            self.grow()
        entry = place(self, topic, length, hash)
        if entry.plan != NULL:
            Py_INCREF(plan)
            Py_XDECREF(<PyObject*>entry.plan)
            entry.plan = <void*>plan
            entry.made = made
            return plan
        if self.keys == NULL or self.keys_used + length > self.keys_capacity:  # the first topic may be the empty one
            size = max(2 * self.keys_capacity, self.keys_used + length, 4096)
            keys = <char*>realloc(self.keys, size)
            if keys == NULL:
                raise MemoryError
            self.keys = keys
            self.keys_capacity = size
        memcpy(self.keys + self.keys_used, topic, length)
        entry.hash = hash
        entry.made = made
        entry.key = self.keys_used
        entry.length = length
        Py_INCREF(plan)
        entry.plan = <void*>plan
        self.keys_used += length
        self.used += 1
        return plan

    cdef Plan work_out(self, str topic):
        """Exchange.plan, for the usual case: no consumer is of a group, is joined with others, or may see only some topics."""
        cdef list levels = self.index.match(topic.split("."))
        cdef list consumers = []
        cdef list couriers = []
        cdef Level level
        cdef Consumer consumer
        cdef Plan plan
        if len(levels) == 0:
            return self.exchange.nobody
        found = tuple(levels)
        key = levels[0] if len(levels) == 1 else found
        plan = self.shared.get(key)
        if plan is not None and (plan.version == self.index.version or self.unchanged(plan) or self.exchange.renew(plan)):
            return plan
        for level in levels:
            self.index.looked_at += len(level.values or ())
            for consumer in level.values or ():
                if consumer.sees is not None or consumer.group or consumer.is_joined:
                    return self.exchange.plan(topic)
                if consumer.courier is None:
                    consumers.append(consumer)
                elif consumer.courier not in couriers:
                    couriers.append(consumer.courier)
        plan = Plan(tuple(consumers), (), found, tuple(couriers))
        plan.version = plan.filled = self.index.version
        if len(self.shared) >= SHARED_PLANS_KEPT:
            self.shared.clear()
        self.shared[key] = plan
        return plan

    cdef Plan joined(self, Plan plan, object producer, object producers, const char* topic, Py_ssize_t length):
        """Those of the plan of a topic and those in whose set the producer is: as last worked out, if nothing has changed since."""
        cdef object kept = producer.plan
        cdef tuple made_from
        cdef bytes known
        if kept is not None:
            made_from = <tuple>(<tuple>kept)[0]
            known = made_from[2]
            if (
                made_from[0] is plan
                and made_from[1] == plan.filled
                and made_from[3] == producers.generation
                and PyBytes_GET_SIZE(known) == length
                and memcmp(PyBytes_AS_STRING(known), topic, length) == 0
            ):
                return (<tuple>kept)[1]
        return self.exchange.plan_for(producer, PyBytes_FromStringAndSize(topic, length), self)

    cdef bint unchanged(self, Plan plan) noexcept:
        """Are all its levels unchanged? False where there are very many: that is work to be counted."""
        cdef Py_ssize_t each, levels = PyTuple_GET_SIZE(plan.levels)
        if levels > FEW_LEVELS:
            return False
        for each in range(levels):
            if (<Level>PyTuple_GET_ITEM(plan.levels, each)).version > plan.version:
                return False
        plan.version = self.index.version
        return True

    cdef bint still_holds(self, const char* topic, Py_ssize_t length, uint64_t made) noexcept:
        """Has no change since then a literal prefix that this topic begins with?"""
        cdef Py_ssize_t end
        if self.widest_stamp > made:
            return False
        for end in range(1, length + 1):
            if end == length or topic[end] == c".":
                if self.stamps[fumarole_hash(topic, end) % STAMPS] > made:
                    return False
        return True

    cdef int grow(self) except -1:
        cdef Py_ssize_t capacity = self.capacity * 2 if self.capacity else FIRST_CAPACITY
        cdef Entry* entries = <Entry*>calloc(capacity, sizeof(Entry))
        cdef Py_ssize_t old, at
        if entries == NULL:
            raise MemoryError
        for old in range(self.capacity):
            if self.entries[old].plan != NULL:
                at = self.entries[old].hash & (capacity - 1)
                while entries[at].plan != NULL:
                    at = (at + 1) & (capacity - 1)
                entries[at] = self.entries[old]
        free(self.entries)
        self.entries = entries
        self.capacity = capacity
        return 0

    cdef void clear(self) noexcept:
        cdef Py_ssize_t at
        for at in range(self.capacity if self.used else 0):
            Py_XDECREF(<PyObject*>self.entries[at].plan)
        if self.used:
            memset(self.entries, 0, self.capacity * sizeof(Entry))
        self.used = 0
        self.changes = 0
        self.keys_used = 0
