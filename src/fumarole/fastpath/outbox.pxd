# cython: language_level=3

from libc.stdint cimport uint64_t

from fumarole.fastpath.conflation cimport Held


cdef class Counters:
    cdef public long long received
    cdef public long long received_bytes
    cdef public long long routed
    cdef public long long unheard
    cdef public long long overflowed
    cdef public long long refused
    cdef public long long forwarded
    cdef public long long strayed
    cdef public long long last
    cdef public long long conflated


cdef class Consumer:
    cdef public object outlet
    cdef public object pattern
    cdef public object group
    cdef public bytes key
    cdef public object sees
    cdef public object standing
    cdef public long long accepted
    cdef public long long dropped
    cdef public long long limit
    cdef public Consumer courier
    cdef public object account   # what it counts against (A5); None: the server's own
    cdef public Py_ssize_t count
    cdef public bint resting
    cdef public object seat
    cdef public uint64_t seat_hash
    cdef public long long conflated
    cdef public object conflation
    cdef object passes      # its stage: then nothing is written here, and the stage gets its messages
    cdef Held held          # of its stage, where messages that are nothing but a payload wait; None: it has none such
    cdef bint is_joined     # one entity with the others of its outlet (D2)
    cdef Outbox outbox      # its outlet's, where NATS frames are made here; None: the outlet makes its own
    cdef Outbox readings    # its outlet's, where readings are written here as they came; None: the outlet does it
    cdef Outbox packets     # its outlet's, where MQTT packets are made here; None: the outlet makes its own
    cdef Py_ssize_t largest     # bytes of a packet that its client takes
    cdef int version            # of MQTT


cdef struct Mark:
    # One frame of a block: where it ends, and whose it is (owned; NULL: a control frame).
    Py_ssize_t end
    void* consumer


cdef struct Shared:
    # Bytes that several outboxes send, or one that sends them from where they were received. They follow here.
    Py_ssize_t holders


cdef struct Block:
    # A page of frames: their bytes grow from the front, their marks from the back.
    Block* next
    Py_ssize_t capacity
    Py_ssize_t start        # sent or dropped up to here
    Py_ssize_t end
    Py_ssize_t frames
    Py_ssize_t first        # the first frame that is not wholly sent or dropped
    Shared* shared          # NULL: all bytes are here. Else it is one frame, and these hold
    const char* tail        # its bytes
    Py_ssize_t head         # from here on


cdef Shared* new_shared(Shared* grown, Py_ssize_t length) except NULL
cdef void release(Shared* shared) noexcept


cdef inline char* shared_bytes(Shared* shared) noexcept:
    return <char*>(shared + 1)


cdef class Outbox:
    cdef Block* held        # what may not be dropped any more: control frames that were in the way, half a frame sent
    cdef Block* held_last
    cdef Block* oldest
    cdef Block* newest
    cdef Py_ssize_t limit
    cdef int policy
    cdef Counters counters
    cdef public list ready
    cdef public object owner
    cdef public Py_ssize_t size
    cdef public bint overflowed
    cdef public bint doubted
    cdef public bint takes_headers
    cdef public bint late           # something that may not be lost waits for room: no message may overtake it
    cdef char* reserve(self, Py_ssize_t length, Consumer consumer) except? NULL
    cdef char* reserve_head(
        self, Py_ssize_t length, Shared* shared, const char* tail, Py_ssize_t tail_length, Consumer consumer
    ) except? NULL
    cdef bint admit(self, Py_ssize_t length, Consumer consumer) except -1
    cdef int link(self, bint to_held, Block* block) noexcept
    cdef char* append(self, bint to_held, Py_ssize_t length, void* consumer) except NULL
    cdef bint make_room(self, Py_ssize_t length, Consumer consumer) except -1
    cdef int give_up(self) except -1
    cdef int drop_oldest(self, Py_ssize_t length) except -1
    cdef int discard_first(self) except -1
