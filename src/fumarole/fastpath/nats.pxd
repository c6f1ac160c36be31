# cython: language_level=3
from libc.string cimport memchr, memcmp

from fumarole.fastpath.last_values cimport LastValues
from fumarole.fastpath.outbox cimport Consumer, Counters, Outbox, Shared
from fumarole.fastpath.plans cimport Plan, Plans
from fumarole.fastpath.texts cimport Slice


cdef extern from *:
    """
    /* What parsing an operation can find instead of its length. */
    #define INCOMPLETE 0
    #define ODD -1
    /* Two milliseconds or so, in messages; what handing over an operation takes, and the session's own unit, in the same. */
    #define WORK_AT_ONCE 20000
    #define WORK_OF_A_HAND_OVER 50
    #define WORK_OF_THE_SESSION 3
    #define WORK_OF_A_DIFF 10
    """
    const Py_ssize_t INCOMPLETE, ODD, WORK_AT_ONCE, WORK_OF_A_HAND_OVER, WORK_OF_THE_SESSION, WORK_OF_A_DIFF


cdef struct Operation:
    # A PUB or HPUB as it stands in the buffer.
    const char* topic
    Py_ssize_t topic_length
    const char* reply
    Py_ssize_t reply_length
    const char* tail            # from the first size to the end: sizes, line end, headers, payload, line end
    Py_ssize_t tail_length
    Py_ssize_t headers          # bytes of headers; -1: it is a PUB
    Py_ssize_t total            # bytes of headers and payload
    Py_ssize_t length           # of the whole operation
    Shared* shared              # has the tail, if it is large and some outbox needs it; NULL: it is nowhere but in the buffer
    Slice producer              # the last header of each of these names; NULL: there is none
    Slice metadata


cdef inline const char* line_after(
    const char** at, const char* end, const char* verb, Py_ssize_t longest, bint* headers
) noexcept:
    """Where the line that begins here with this verb, or with H before it, ends; `at` is moved past the verb. NULL: it does not."""
    cdef const char* p = at[0]
    cdef const char* line_end
    if end - p < 5:
        return NULL
    headers[0] = p[0] == c"H"
    p += headers[0]
    if memcmp(p, verb, 4) != 0:
        return NULL
    line_end = <const char*>memchr(p, c"\n", min(end - p, longest))
    if line_end == NULL or line_end[-1] != c"\r":
        return NULL
    at[0] = p + 4
    return line_end - 1


cdef inline Py_ssize_t number(const char** at, const char* end) noexcept:
    """The digits at this place, written the one way; -1: there are none, too many, or others follow."""
    cdef const char* p = at[0]
    cdef Py_ssize_t value = 0, digits = 0
    while p < end and c"0" <= p[0] <= c"9":
        value = value * 10 + (p[0] - c"0")
        p += 1
        digits += 1
        if digits > 9:
            return -1
    if digits == 0 or (digits > 1 and at[0][0] == c"0"):
        return -1
    at[0] = p
    return value


cdef inline bint sizes(const char** at, const char* line_end, bint headers, Operation* operation) noexcept:
    """The one size of a message without headers or the two of one with them, up to the end of the line."""
    operation.headers = -1
    operation.total = number(at, line_end)
    if headers and operation.total >= 0:
        if at[0][0] != c" ":
            return False
        at[0] += 1
        operation.headers = operation.total
        operation.total = number(at, line_end)
    return operation.total >= 0 and at[0] == line_end


cdef inline Py_ssize_t whole(
    const char* at, const char* end, const char* line_end, Py_ssize_t largest, Operation* operation, Py_ssize_t* needed
) noexcept:
    """The length of the operation that begins `at` and whose line is read; INCOMPLETE, and how much is needed; or ODD."""
    cdef const char* p = line_end + 2 + operation.total
    if operation.total > largest or operation.headers > operation.total or operation.headers == 0:
        return ODD
    operation.length = p + 2 - at
    if p + 2 > end:
        needed[0] = operation.length
        return INCOMPLETE
    if p[0] != c"\r" or p[1] != c"\n":
        return ODD
    operation.tail_length = p + 2 - operation.tail
    return operation.length


cdef bint may_be_traced(Operation* operation) noexcept


cdef class NatsReader:
    cdef object session
    cdef Outbox outbox
    cdef Plans plans
    cdef Counters counters
    cdef LastValues last        # where the namespace keeps the last message of every topic; None: nowhere
    cdef bint verbose, echo, waiting, closed
    cdef bint traces            # are spans made of sampled messages (O3)? Then the session takes those
    cdef Py_ssize_t control_line, payload_limit
    cdef Shared* pending        # the beginning of an operation whose end has not come yet
    cdef Py_ssize_t pending_length, pending_capacity
    cdef Py_ssize_t needed      # how long it will be; 0: its line is not even complete
    cdef Py_ssize_t work        # done since the loop was last given a turn: about so many messages
    cdef bytes rest             # what was put off for the next turn; None: nothing
    cdef object exchange, producers, now
    cdef dict known             # its producers
    cdef dict speaks_for        # the session's
    cdef Py_ssize_t metadata_bytes
    cdef object identity        # of the producer whose reading is published just now; None: it is no reading
    cdef object spoken          # the identity of the reading before it: most connections bring those of one producer
    cdef object value           # and the number that it says, as far as it is known
    cdef bint is_text           # what it says is no number
    cdef bytes brought          # metadata as the last one wrote it that went to a MsgPack client, and its form there
    cdef bytes brought_packed
    cdef int refresh(self) except -1
    cdef int end_of_waiting(self) except -1
    cdef int consume(self, const char* data, Py_ssize_t length) except -1
    cdef int keep(self, const char* data, Py_ssize_t length) except -1
    cdef Py_ssize_t complete(self, const char* data, Py_ssize_t length) except -1
    cdef Py_ssize_t run(self, const char* data, Py_ssize_t length) except -1
    cdef Plan learn(self, Operation* operation)
    cdef Py_ssize_t parse(self, const char* at, const char* end, Operation* operation) noexcept
    cdef bint read(self, Plan plan, Operation* operation) except -1
    cdef bint has_said(self, object producer, Slice metadata) except -1
    cdef bint merge(self, object producer, Slice metadata) except -1
    cdef bint stays(self, object producer, Operation* operation) except -1
    cdef int take_value(self, object producer, Operation* operation) except -1
    cdef Plan passed(self, Plan plan, object producer, Operation* operation)
    cdef Py_ssize_t publish(self, Plan plan, Operation* operation) except -1
    cdef Py_ssize_t published(self, Operation* operation, Py_ssize_t routed, Py_ssize_t forwarded) except -1
    cdef int answer(self, Operation* operation, Py_ssize_t reached) except -1
    cdef object deliver(self, Consumer consumer, bytes key, Operation* operation, object publication)
    cdef char* frame_of(self, Outbox outbox, Py_ssize_t length, Operation* operation, Consumer consumer) except? NULL
    cdef int share(self, Operation* operation) except -1
    cdef bint send_to_mqtt(self, Consumer consumer, Operation* operation) except -1
    cdef bint waits(self, Consumer consumer, Operation* operation) except -1
    cdef bint send_reading(self, Consumer consumer, Operation* operation) except -1
    cdef bytes packed(self, Operation* operation)
    cdef object publication(self, Operation* operation)
    cdef int keep_last(self, Operation* operation) except -1
    cdef Py_ssize_t hand_over(self, const char* at, const char* end) except -1
    cdef int give(self, bytes data) except -1
