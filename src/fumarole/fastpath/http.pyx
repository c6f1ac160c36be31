# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The hot loop of the web door: messages that are posted, one by one or as lines of JSON (H2).

It is the fused copy of protocols/http.py, sessions/http/session.py and sessions/http/topics.py, for what comes by the million:

- A client that keeps its connection sends the same head again and again. The session answers the first request, and says
  whether the next one with this head means the same but for its body (`HttpSession.repeats`). From then on the head is
  compared, not parsed:

      POST /v1/topics/a HTTP/1.1␍␊Host: h␍␊Content-Length: 4␍␊␍␊21.5      the session looks, publishes, answers
      POST /v1/topics/a HTTP/1.1␍␊Host: h␍␊Content-Length: 4␍␊␍␊21.6      the same head: published and answered here

- A line of a batch in its usual form, with `topic` and either `payload` or `value`, without escapes, in ASCII.

All else, every other head, body, line and error, is the session's matter, which is the definition. tests/fastpath holds both
equal. From the topic on, a message goes the way of one that came by NATS (nats.pyx).
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport uint64_t
from libc.string cimport memcmp, memcpy

from fumarole.fastpath.nats cimport NatsReader, Operation
from fumarole.fastpath.plans cimport Plan, Plans

from fumarole.sessions.stream import State

cdef object OPEN = State.OPEN

cdef extern from *:
    """
    #define LARGEST 16384                   /* bytes of headers and payload: larger ones take long anyway */
    #define SIZES 32                        /* bytes for two sizes and line ends */
    #define HEADS_KEPT 8                    /* one for each length of a body, mostly */
    #define ANSWERS_KEPT 64
    #define ANSWERS_WAITING 32768           /* bytes: then they leave first */
    #define WORK_OF_A_REQUEST 5             /* in messages, as all work */
    #define WORK_OF_A_LINE 2
    #define A_MILLISECOND 5000              /* of work, or so */
    #define WORK_OF_THE_SESSION 5           /* messages in a unit of the session's work, a microsecond */
    #define NOT_PUBLISHED -2
    """
    const Py_ssize_t LARGEST, SIZES, HEADS_KEPT, ANSWERS_KEPT, ANSWERS_WAITING, WORK_OF_A_REQUEST, WORK_OF_A_LINE, A_MILLISECOND
    const Py_ssize_t WORK_OF_THE_SESSION, NOT_PUBLISHED
    enum: LARGEST_TAIL "(LARGEST + SIZES)"

cdef char tail[LARGEST_TAIL]
"""What of a message follows its topic, as NATS writes it. One at a time is published: nothing that gets one publishes."""


cdef inline char* write_size(char* place, Py_ssize_t size) noexcept:
    cdef char digits[20]
    cdef int count = 0
    while size >= 10:
        digits[count] = <char>(c"0" + size % 10)
        size //= 10
        count += 1
    digits[count] = <char>(c"0" + size)
    while count >= 0:
        place[0] = digits[count]
        place += 1
        count -= 1
    return place


cdef class Publishing(NatsReader):
    """Publishes messages as the NATS door does. It reads none."""

    def __init__(self):
        self.echo = True

    cdef int enter(self, object exchange, Plans plans) except -1:
        """The namespace, and what may be published there."""
        self.exchange = exchange
        self.plans = plans
        self.counters = exchange.counters
        self.last = exchange.last_values
        return 0

    cdef Py_ssize_t send(
        self,
        const char* topic,
        Py_ssize_t topic_length,
        const char* block,
        Py_ssize_t block_length,
        const char* payload,
        Py_ssize_t length,
    ) except -1:
        """How many entities got the message; NOT_PUBLISHED: the definition has to look at it, and says what is wrong."""
        cdef Operation operation
        cdef char* place = tail
        cdef Plan plan
        if block_length + length > LARGEST:
            return NOT_PUBLISHED
        if self.last is not None:
            self.last.begin()
        plan = self.plans.known(topic, topic_length)
        operation.topic = topic
        operation.topic_length = topic_length
        if plan is None:
            plan = self.learn(&operation)
            if plan is None:
                return NOT_PUBLISHED
        operation.reply_length = 0
        operation.headers = -1
        operation.total = block_length + length
        operation.producer.at = operation.metadata.at = NULL
        if block_length:
            operation.headers = block_length
            place = write_size(place, block_length)
            place[0] = c" "
            place += 1
        place = write_size(place, operation.total)
        memcpy(place, b"\r\n", 2)
        place += 2
        if block_length:
            memcpy(place, block, block_length)
        place += block_length
        if length:
            memcpy(place, payload, length)
        place += length
        memcpy(place, b"\r\n", 2)
        operation.tail = tail
        operation.tail_length = place + 2 - tail
        return self.publish(plan, &operation)


cdef class Known:
    """A head that has come before, and what a request with it publishes."""

    cdef bytes head, topic, block
    cdef Py_ssize_t length      # of its body
    cdef object call, exchange, user
    cdef Plans plans
    cdef object date            # of the answers
    cdef dict answers           # by how many entities got the message

    def __init__(self, call, head):
        self.head = head
        self.topic, self.block = call.repeats
        self.length = call.head.length
        self.call = call
        self.exchange, self.plans = call.here()
        self.user = call.user
        self.answers = {}


cdef class HttpReader(Publishing):
    """Stands before a session and takes its bytes."""

    cdef list heads
    cdef Known current
    cdef bytes half         # the beginning of a request that followed others; None: nothing
    cdef bint is_ready      # is the session between two requests?

    def __init__(self, session):
        Publishing.__init__(self)
        self.session = session
        self.outbox = session.outbox
        self.heads = []

    def receive_data(self, data):
        """Bytes from the client, cut anywhere."""
        cdef Py_buffer view
        if self.rest is not None:
            self.rest = self.rest + bytes(data)
            return
        self.session.heard = True
        self.work = 0
        if self.half is not None:
            data, self.half = self.half + bytes(data), None
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            self.take(data, <const char*>view.buf, view.len)
        finally:
            PyBuffer_Release(&view)

    @property
    def unfinished(self):
        """Was something put off?"""
        return self.rest is not None or self.session.unfinished

    def go_on(self):
        """With what was put off."""
        cdef bytes rest = self.rest
        if rest is not None:
            self.rest = None
            self.work = 0
            self.take(rest, PyBytes_AS_STRING(rest), PyBytes_GET_SIZE(rest))
        else:
            self.session.go_on()
            self.look()

    def renew(self):
        """What the session goes by has changed: the configuration was loaded again (A7)."""
        self.heads.clear()
        self.current = None

    cdef int take(self, object data, const char* at, Py_ssize_t length) except -1:
        cdef Py_ssize_t used = 0
        if self.is_ready and self.session.state is OPEN:
            used = self.repeat(at, length)
            if used < length and (self.work >= A_MILLISECOND or self.outbox.size > ANSWERS_WAITING):
                self.rest = PyBytes_FromStringAndSize(at + used, length - used)
                return 0
            if used and self.is_half(at + used, length - used):
                self.half = PyBytes_FromStringAndSize(at + used, length - used) if used < length else None
                return 0
        if used < length:
            self.session.receive_data(PyBytes_FromStringAndSize(at + used, length - used) if used else data)
            self.look()
        return 0

    cdef bint is_half(self, const char* at, Py_ssize_t length) except -1:
        """Is this the beginning of another such request that is published here, or nothing?"""
        cdef Known known
        cdef Py_ssize_t head
        for known in self.heads:
            head = PyBytes_GET_SIZE(known.head)
            if known.length > LARGEST:
                continue  # joining what comes in small pieces would take long, and the session has it in the end
            if length < head + known.length and memcmp(PyBytes_AS_STRING(known.head), at, min(head, length)) == 0:
                return True
        return length == 0

    cdef int look(self) except -1:
        """The session has handled something: is a request like its last one to be handled here?"""
        cdef Known known
        session = self.session
        self.is_ready = session.is_between_requests()
        if not self.is_ready:
            return 0
        repeats = session.repeats()
        if repeats is None:
            return 0
        call, head = repeats
        for known in self.heads:
            if known.call is call:
                return 0
        self.heads = [known for known in self.heads if (<Known>known).head != head][1 - HEADS_KEPT :]
        self.heads.append(Known(call, head))
        return 0

    cdef Known find(self, const char* at, Py_ssize_t length):
        """The head that is here."""
        cdef Known known = self.current
        if known is not None and is_here(known, at, length):
            return known
        for known in self.heads:
            if is_here(known, at, length):
                if known.exchange is not self.session.exchange or known.user is not self.session.user:
                    return None
                self.enter(known.exchange, known.plans)
                self.current = known
                return known
        return None

    cdef Py_ssize_t repeat(self, const char* data, Py_ssize_t length) except -1:
        """Publishes and answers requests that have come before. How many bytes they were."""
        cdef const char* at = data
        cdef const char* end = data + length
        cdef const char* body
        cdef Known known
        cdef Py_ssize_t reached, answered = 0
        self.current = None  # the session may have entered another namespace
        if self.session.account.has_rates:
            return 0
        service = self.session.service
        date = service.date()
        while at < end:
            known = self.find(at, end - at)
            if known is None:
                break
            body = at + PyBytes_GET_SIZE(known.head)
            if end - body < known.length:
                break
            reached = self.send(
                PyBytes_AS_STRING(known.topic),
                PyBytes_GET_SIZE(known.topic),
                PyBytes_AS_STRING(known.block),
                PyBytes_GET_SIZE(known.block),
                body,
                known.length,
            )
            if reached == NOT_PUBLISHED:
                break
            self.outbox.push(self.answer_for(known, reached, date))
            at = body + known.length
            answered += 1
            self.work += WORK_OF_A_REQUEST
            if self.work >= A_MILLISECOND or self.outbox.size > ANSWERS_WAITING:
                break
        if answered:
            service.answered[202] += answered
        return at - data

    cdef bytes answer_for(self, Known known, Py_ssize_t reached, object date):
        cdef object made
        if known.date != date or len(known.answers) >= ANSWERS_KEPT:
            known.date = date
            known.answers.clear()
        made = known.answers.get(reached)
        if made is None:
            made = known.answers[reached] = self.session.answer_to(known.call, reached)
        return made


cdef inline bint is_here(Known known, const char* at, Py_ssize_t length):
    cdef Py_ssize_t size = PyBytes_GET_SIZE(known.head)
    return length >= size and memcmp(PyBytes_AS_STRING(known.head), at, size) == 0


# Lines of a batch.

cdef struct Line:
    const char* topic           # NULL: not there
    Py_ssize_t topic_length
    const char* payload
    Py_ssize_t payload_length

cdef enum:
    ODD = -1
    HALF = 0

cdef uint64_t ONES = 0x0101010101010101
cdef uint64_t HIGH = 0x8080808080808080


cdef inline const char* past_text(const char* at, const char* end) noexcept:
    """The first byte that is not one of a plain text: a quote, a backslash, a control character, or not ASCII."""
    cdef uint64_t eight, quotes, slashes
    cdef unsigned char c
    while end - at >= 8:
        memcpy(&eight, at, 8)
        quotes = eight ^ (ONES * c'"')
        slashes = eight ^ (ONES * c"\\")
        if (
            eight
            | ((quotes - ONES) & ~quotes)
            | ((slashes - ONES) & ~slashes)
            | ((eight - ONES * 0x20) & ~eight)
        ) & HIGH:
            break
        at += 8
    while at < end:
        c = <unsigned char>at[0]
        if c == c'"' or c == c"\\" or c < 0x20 or c >= 0x80:
            break
        at += 1
    return at


cdef inline const char* past_spaces(const char* at, const char* end) noexcept:
    while at < end and at[0] == c" ":
        at += 1
    return at


cdef inline const char* past_digits(const char* at, const char* end) noexcept:
    while at < end and c"0" <= at[0] <= c"9":
        at += 1
    return at


cdef inline const char* past_number(const char* begin, const char* end) noexcept:
    """The end of a number that Python would write as it stands here; `begin`: it is none, or Python might not."""
    cdef const char* at = begin
    cdef const char* whole
    cdef const char* places
    if at < end and at[0] == c"-":
        at += 1
    whole = at
    at = past_digits(at, end)
    if at == whole or at - whole > 15 or (whole[0] == c"0" and at - whole > 1):
        return begin
    if at == end or at[0] != c".":
        # -0 is 0
        return begin if whole != begin and whole[0] == c"0" else at
    places = at + 1
    at = past_digits(places, end)
    if at == places or (at - whole) > 16 or ((at - 1)[0] == c"0" and at - places > 1):
        return begin
    if whole[0] == c"0" and at - places > 3 and memcmp(places, b"000", 3) == 0:
        return begin  # small ones are written with an exponent
    return at


cdef Py_ssize_t parse_line(const char* begin, const char* end, Line* line) noexcept:
    """The length of a usual line, its end included; HALF: it is not all there; ODD."""
    cdef const char* at = begin
    cdef const char* past
    cdef bint is_topic, is_value
    line.topic = line.payload = NULL
    line.topic_length = line.payload_length = 0
    if at == end:
        return HALF
    if at[0] != c"{":
        return ODD
    at += 1
    while True:
        at = past_spaces(at, end)
        if end - at < 11:
            return HALF
        is_topic = is_value = False
        if memcmp(at, b'"topic"', 7) == 0:
            is_topic = True
            at += 7
        elif memcmp(at, b'"payload"', 9) == 0:
            at += 9
        elif memcmp(at, b'"value"', 7) == 0:
            is_value = True
            at += 7
        else:
            return ODD
        at = past_spaces(at, end)
        if at == end:
            return HALF
        if at[0] != c":":
            return ODD
        at = past_spaces(at + 1, end)
        if at == end:
            return HALF
        if is_value:
            past = past_number(at, end)
            if past == end:
                return HALF
            if past == at or line.payload != NULL:
                return ODD
            line.payload = at
            line.payload_length = past - at
            at = past
        else:
            if at[0] != c'"':
                return ODD
            past = past_text(at + 1, end)
            if past == end:
                return HALF
            if past[0] != c'"' or (line.topic if is_topic else line.payload) != NULL:
                return ODD
            if is_topic:
                line.topic = at + 1
                line.topic_length = past - at - 1
            else:
                line.payload = at + 1
                line.payload_length = past - at - 1
            at = past + 1
        at = past_spaces(at, end)
        if at == end:
            return HALF
        if at[0] == c",":
            at += 1
            continue
        if at[0] != c"}":
            return ODD
        if line.payload == NULL:
            line.payload = at  # and has no length
        at = past_spaces(at + 1, end)
        if at < end and at[0] == c"\r":
            at += 1
        if at == end:
            return HALF
        if at[0] != c"\n" or line.topic == NULL:
            return ODD
        return at + 1 - begin


cdef class LineReader(Publishing):
    """Publishes the usual lines of one batch (`sessions/http/topics.py`, Batch)."""

    cdef readonly Py_ssize_t lines, delivered, spent
    cdef Py_ssize_t longest

    def __init__(self, exchange, plans, limits):
        Publishing.__init__(self)
        self.enter(exchange, plans)
        self.longest = limits.control_line
        self.payload_limit = limits.payload

    def take(self, bytes data, Py_ssize_t begin):
        """Publishes from here on, up to the first line that has to be looked at. Where that begins."""
        cdef const char* first = PyBytes_AS_STRING(data)
        cdef const char* end = first + PyBytes_GET_SIZE(data)
        cdef const char* at = first + begin
        cdef Line line
        cdef Py_ssize_t length, reached
        self.lines = self.delivered = self.work = 0
        while self.work < A_MILLISECOND:
            length = parse_line(at, end, &line)
            if length <= 0:
                break
            if line.topic_length == 0 or line.topic_length > self.longest or line.payload_length > self.payload_limit:
                break
            if line.topic[0] == c"$" or line.topic[0] == c"_":
                break
            reached = self.send(line.topic, line.topic_length, NULL, 0, line.payload, line.payload_length)
            if reached == NOT_PUBLISHED:
                break
            self.lines += 1
            self.delivered += reached
            self.work += WORK_OF_A_LINE
            at += length
        self.spent = self.work // WORK_OF_THE_SESSION
        return at - first
