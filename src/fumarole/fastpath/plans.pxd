# cython: language_level=3
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.stdint cimport uint32_t, uint64_t

from fumarole.fastpath.index cimport Index
from fumarole.fastpath.outbox cimport Consumer, Outbox


cdef extern from *:
    """
    /* Which bytes a topic may have (T1). */
    static const unsigned char fumarole_strict[256] = {
        ['-'] = 1, ['_'] = 1, ['.'] = 1,
        ['0'] = 1, ['1'] = 1, ['2'] = 1, ['3'] = 1, ['4'] = 1, ['5'] = 1, ['6'] = 1, ['7'] = 1, ['8'] = 1, ['9'] = 1,
        ['A'] = 1, ['B'] = 1, ['C'] = 1, ['D'] = 1, ['E'] = 1, ['F'] = 1, ['G'] = 1, ['H'] = 1, ['I'] = 1, ['J'] = 1, ['K'] = 1,
        ['L'] = 1, ['M'] = 1, ['N'] = 1, ['O'] = 1, ['P'] = 1, ['Q'] = 1, ['R'] = 1, ['S'] = 1, ['T'] = 1, ['U'] = 1, ['V'] = 1,
        ['W'] = 1, ['X'] = 1, ['Y'] = 1, ['Z'] = 1,
        ['a'] = 1, ['b'] = 1, ['c'] = 1, ['d'] = 1, ['e'] = 1, ['f'] = 1, ['g'] = 1, ['h'] = 1, ['i'] = 1, ['j'] = 1, ['k'] = 1,
        ['l'] = 1, ['m'] = 1, ['n'] = 1, ['o'] = 1, ['p'] = 1, ['q'] = 1, ['r'] = 1, ['s'] = 1, ['t'] = 1, ['u'] = 1, ['v'] = 1,
        ['w'] = 1, ['x'] = 1, ['y'] = 1, ['z'] = 1,
    };
    """
    const unsigned char fumarole_strict[256]


cdef inline bint has_room(Consumer member, Py_ssize_t weight) except -1:
    cdef Outbox outbox = member.outbox
    if member.resting:
        return False
    if outbox is not None:
        return outbox.size + weight <= outbox.limit and not outbox.overflowed and not outbox.doubted
    return member.outlet.has_room(weight)


cdef class Group:
    cdef public object name
    cdef public object seats
    cdef public bint is_keyed
    cdef bint by_producer
    cdef public Py_ssize_t size
    cdef public uint32_t turn
    cdef Consumer pick(
        self, tuple members, Py_ssize_t weight, object origin, const char* topic, Py_ssize_t length, object identity
    )
    cdef Consumer seated(self, tuple members, object origin, uint64_t key)


cdef class Plan:
    cdef public tuple consumers
    cdef public tuple groups
    cdef public tuple levels
    cdef public tuple couriers
    cdef public long long version
    cdef public long long filled
    cdef public object topic
    cdef public object filters
    cdef public object inbox


cdef inline bint all_here(Plan plan):
    """Is every consumer of the plan at this node? Otherwise the exchange publishes."""
    cdef Py_ssize_t each
    cdef tuple share
    if PyTuple_GET_SIZE(plan.couriers):
        return False
    for each in range(PyTuple_GET_SIZE(plan.groups)):
        share = <tuple>PyTuple_GET_ITEM(plan.groups, each)
        if PyTuple_GET_SIZE(<tuple>PyTuple_GET_ITEM(share, 1)) != PyTuple_GET_SIZE(<tuple>PyTuple_GET_ITEM(share, 2)):
            return False
    return True


cdef struct Entry:
    uint64_t hash
    uint64_t made           # the generation at which the plan was made, or last found to hold
    Py_ssize_t key          # where the topic stands among the keys
    Py_ssize_t length
    void* plan              # owned; NULL: the entry is free


cdef class Plans:
    cdef object exchange
    cdef Index index
    cdef dict shared
    cdef object grammar
    cdef bint strict
    cdef object permissions
    cdef bint is_own
    cdef Entry* entries
    cdef Py_ssize_t capacity
    cdef Py_ssize_t used
    cdef Py_ssize_t changes     # since the plans were last forgotten
    cdef char* keys
    cdef Py_ssize_t keys_capacity
    cdef Py_ssize_t keys_used
    cdef uint64_t generation
    cdef uint64_t widest_stamp
    cdef uint64_t* stamps
    cdef Plan known(self, const char* topic, Py_ssize_t length)
    cdef Plan learn(self, const char* topic, Py_ssize_t length)
    cdef Plan work_out(self, str topic)
    cdef Plan joined(self, Plan plan, object producer, object producers, const char* topic, Py_ssize_t length)
    cdef bint unchanged(self, Plan plan) noexcept
    cdef bint still_holds(self, const char* topic, Py_ssize_t length, uint64_t made) noexcept
    cdef int grow(self) except -1
    cdef void clear(self) noexcept
