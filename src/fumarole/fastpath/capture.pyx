# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Messages from the read buffer to columns, a whole buffer at a time and without an object for any of them.

It is the fused copy of protocols/nats.py (parsing MSG and HMSG) and protocols/columns.py (what goes into which column), and is held
equal to them. What is no message of its subscriptions goes on to the protocol as it stands, and so do all faults: from a
broken operation on, everything is the protocol's.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memchr, memcmp, memcpy, memmove

from fumarole.fastpath.buffers cimport (
    Bytes, TextColumn, add_bit, add_text, append, append_offset, free_column, taken
)
from fumarole.fastpath.numbers cimport number
from fumarole.fastpath.texts cimport Slice, is_ascii, is_text, line_end_in, same, stripped

cdef extern from *:
    """
    #define INCOMPLETE 0
    #define OTHER -1            /* a message of another subscription */
    #define CONTROL -2          /* a line without a payload, or none at all */
    #define BROKEN -3
    #define MOST_HEADERS 16
    #define ROW_BYTES 40
    #define A_LITTLE 1000000    /* microseconds */
    """
    const Py_ssize_t INCOMPLETE, OTHER, CONTROL, BROKEN, ROW_BYTES, A_LITTLE
    enum: MOST_HEADERS


cdef struct Frame:
    # A message as it stands in the buffer.
    Slice topic
    Slice headers
    Slice payload
    Py_ssize_t length


cdef inline bint is_sid(Slice text, bytes sid) noexcept:
    return is_text(text, PyBytes_AS_STRING(sid), PyBytes_GET_SIZE(sid))


cdef inline Py_ssize_t size_of(Slice word) noexcept:
    """One to nine digits; -1: it is something else."""
    cdef Py_ssize_t value = 0, at
    if word.length == 0 or word.length > 9:
        return -1
    for at in range(word.length):
        if not c"0" <= word.at[at] <= c"9":
            return -1
        value = value * 10 + (word.at[at] - c"0")
    return value


cdef class Sieve:
    """Stands before a connection's protocol and takes the messages of a subscription, or two, out, into columns."""

    cdef object protocol
    cdef bytes sid, also
    cdef Py_ssize_t line_limit, payload_limit
    cdef readonly Py_ssize_t rows
    cdef Bytes pending          # the beginning of an operation whose end has not come yet
    cdef Py_ssize_t needed      # how long it will be; 0: its line is not even complete
    cdef Bytes others           # operations for the protocol
    cdef bint broken            # the protocol has found, or will find, a fault
    cdef Bytes times, values, has_value, has_producer, header_offsets, has_headers, text_offsets, metadata_rows
    cdef TextColumn topics, payloads, producers, names, texts, metadata
    cdef list events
    cdef int64_t latest         # the time of the row before

    def __init__(self, protocol, bytes sid, bytes also=None):
        cdef bytes rest = protocol.reclaim()
        self.protocol = protocol
        self.sid = sid
        self.also = also
        self.line_limit = protocol.limits.control_line
        self.payload_limit = protocol.payload_limit
        self.broken = protocol.close_expected()
        append(&self.pending, rest, len(rest))
        self.begin()

    def __dealloc__(self):
        free(self.pending.data)
        free(self.others.data)
        free(self.times.data)
        free(self.values.data)
        free(self.has_value.data)
        free(self.has_producer.data)
        free(self.header_offsets.data)
        free(self.has_headers.data)
        free(self.text_offsets.data)
        free(self.metadata_rows.data)
        free_column(&self.topics)
        free_column(&self.payloads)
        free_column(&self.producers)
        free_column(&self.names)
        free_column(&self.texts)
        free_column(&self.metadata)

    cdef int begin(self) except -1:
        self.rows = 0
        append_offset(&self.header_offsets, 0)
        append_offset(&self.text_offsets, 0)
        append_offset(&self.topics.offsets, 0)
        append_offset(&self.payloads.offsets, 0)
        append_offset(&self.producers.offsets, 0)
        append_offset(&self.names.offsets, 0)
        append_offset(&self.texts.offsets, 0)
        append_offset(&self.metadata.offsets, 0)
        return 0

    @property
    def size(self):
        """Bytes that wait to be taken, about."""
        return self.bytes_gathered()

    cdef Py_ssize_t bytes_gathered(self) noexcept:
        return (
            self.rows * ROW_BYTES + self.topics.data.length + self.payloads.data.length + self.producers.data.length
            + self.names.data.length + self.texts.data.length + self.metadata.data.length
        )

    def receive_data(self, data, int64_t now):
        """Bytes from the server, cut anywhere, and when they came. What else they say, in order."""
        cdef Py_buffer view
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            self.events = []
            self.consume(<const char*>view.buf, view.len, now)
        finally:
            PyBuffer_Release(&view)
        self.hand_over()
        return self.events

    cdef int hand_over(self) except -1:
        """Bytes that are no message of a capture go to the protocol."""
        if self.others.length:
            self.protocol.receive_data(taken(&self.others))
            self.events += self.protocol.events_received()
        return 0

    cdef int consume(self, const char* data, Py_ssize_t length, int64_t now) except -1:
        cdef Py_ssize_t done
        if self.broken:
            append(&self.others, data, length)
            return 0
        if self.pending.length == 0:
            done = self.sift(data, length, now)
            append(&self.pending, data + done, length - done)
            return 0
        append(&self.pending, data, length)
        if self.pending.length >= self.needed:
            done = self.sift(self.pending.data, self.pending.length, now)
            memmove(self.pending.data, self.pending.data + done, self.pending.length - done)
            self.pending.length -= done
        return 0

    cdef Py_ssize_t sift(self, const char* data, Py_ssize_t length, int64_t now) except -1:
        """Goes through whole operations. How many bytes they are."""
        cdef const char* at = data
        cdef const char* end = data + length
        cdef Frame frame
        cdef Py_ssize_t found
        self.needed = 0
        while at < end:
            found = self.frame(at, end, &frame)
            if found == INCOMPLETE:
                break
            if found == BROKEN:
                self.broken = True
                append(&self.others, at, end - at)
                return length
            if found > 0:
                self.add(&frame, now)
            else:
                append(&self.others, at, frame.length)
            at += frame.length
            if found == CONTROL:
                self.hand_over()
                if self.protocol.close_expected():
                    self.broken = True  # and of what follows nothing counts
                    return length
        return at - data

    cdef Py_ssize_t frame(self, const char* at, const char* end, Frame* frame) noexcept:
        """The operation at this place: its length, where it is a message of a capture; else what it is instead."""
        cdef const char* line_end = <const char*>memchr(at, c"\n", end - at)
        cdef const char* p
        cdef const char* space
        cdef Slice words[7]
        cdef Py_ssize_t count = 0, headers = 0, total
        cdef bint with_headers
        if line_end == NULL:
            return INCOMPLETE if end - at <= self.line_limit + 1 else BROKEN
        frame.length = line_end + 1 - at
        p = at
        if line_end > at and (line_end - 1)[0] == c"\r":
            line_end -= 1
        if line_end - at > self.line_limit:
            return BROKEN
        while count < 7:
            space = <const char*>memchr(p, c" ", line_end - p)
            words[count].at = p
            words[count].length = (space if space != NULL else line_end) - p
            count += 1
            if space == NULL:
                break
            p = space + 1
        with_headers = is_text(words[0], b"HMSG", 4) and 5 <= count <= 6
        if not with_headers and not (is_text(words[0], b"MSG", 3) and 4 <= count <= 5):
            return CONTROL
        total = size_of(words[count - 1])
        if with_headers:
            headers = size_of(words[count - 2])
        if total < 0 or headers < 0 or headers > total or total > self.payload_limit:
            return BROKEN
        p = at + frame.length
        frame.length += total + 2
        if at + frame.length > end:
            self.needed = frame.length
            return INCOMPLETE
        if p[total] != c"\r" or p[total + 1] != c"\n":
            return BROKEN
        if not is_sid(words[2], self.sid) and (self.also is None or not is_sid(words[2], self.also)):
            return OTHER
        frame.topic = words[1]
        frame.headers.at = p
        frame.headers.length = headers
        frame.payload.at = p + headers
        frame.payload.length = total - headers
        return frame.length

    cdef int add(self, Frame* frame, int64_t now) except -1:
        """One more row."""
        cdef double value = 0.0
        cdef bint there
        cdef bytes text
        cdef Py_ssize_t told = self.metadata_rows.length
        if is_text(frame.topic, b"$EMPTY", 6):
            add_text(&self.topics, b"", 0)
        elif is_ascii(frame.topic):
            add_text(&self.topics, frame.topic.at, frame.topic.length)
        else:
            text = frame.topic.at[:frame.topic.length].decode("utf-8", "replace").encode()
            add_text(&self.topics, text, len(text))
        add_text(&self.payloads, frame.payload.at, frame.payload.length)
        there = number(frame.payload, &value)
        if not there:
            value = 0.0
        append(&self.values, <const char*>&value, 8)
        add_bit(&self.has_value, self.rows, there)
        if frame.headers.length == 0:
            self.add_headers(NULL, 0, NULL)
        elif not is_ascii(frame.headers) or not self.read_headers(frame.headers):
            self.add_odd_headers(frame.headers.at[:frame.headers.length])
        # As `columns.time_after` has it.
        if self.latest - A_LITTLE < now <= self.latest:
            self.latest += self.metadata_rows.length > told
        else:
            self.latest = now
        append(&self.times, <const char*>&self.latest, 8)
        self.rows += 1
        return 0

    cdef bint read_headers(self, Slice block) except -1:
        """Headers in ASCII, and not very many. False: it is for Python."""
        cdef Slice names[MOST_HEADERS]
        cdef Slice values[MOST_HEADERS]
        cdef Slice producer
        cdef Slice metadata
        cdef const char* at = block.at
        cdef const char* end = block.at + block.length
        cdef const char* line_end
        cdef const char* colon
        cdef Py_ssize_t count = 0, kept = 0, each
        cdef bint first = True
        producer.at = metadata.at = NULL
        while at <= end:
            line_end = line_end_in(at, end)
            colon = <const char*>memchr(at, c":", line_end - at)
            if not first and colon != NULL and colon > at:
                if count == MOST_HEADERS:
                    return False
                names[count].at = at
                names[count].length = colon - at
                values[count] = stripped(colon + 1, line_end)
                if is_text(names[count], b"Producer", 8):
                    producer = values[count]
                count += 1
            first = False
            at = line_end + 2
        if producer.at == NULL:
            return self.add_headers(names, count, values) == 0
        for each in range(count):
            if is_text(names[each], b"Metadata", 8):
                metadata = values[each]
            elif not is_text(names[each], b"Producer", 8):
                names[kept] = names[each]
                values[kept] = values[each]
                kept += 1
        self.add_headers(names, kept, values, producer.at, producer.length)
        if metadata.at != NULL:
            add_text(&self.metadata, metadata.at, metadata.length)
            append_offset(&self.metadata_rows, self.rows)
        return True

    cdef int add_headers(
        self, Slice* names, Py_ssize_t count, Slice* values, const char* producer = NULL, Py_ssize_t length = 0
    ) except -1:
        """The columns that come of headers. A name that comes again has its texts where it came first."""
        cdef Py_ssize_t each, other
        cdef char* lower
        if producer != NULL:
            add_text(&self.producers, producer, length)
            lower = self.producers.data.data + self.producers.data.length - length
            for each in range(length):
                if c"A" <= lower[each] <= c"Z":
                    lower[each] += 32
        else:
            append_offset(&self.producers.offsets, self.producers.data.length)
        add_bit(&self.has_producer, self.rows, producer != NULL)
        for each in range(count):
            for other in range(each):
                if same(names[other], names[each]):
                    break
            else:
                add_text(&self.names, names[each].at, names[each].length)
                for other in range(each, count):
                    if same(names[other], names[each]):
                        add_text(&self.texts, values[other].at, values[other].length)
                append_offset(&self.text_offsets, self.texts.offsets.length // 4 - 1)
        append_offset(&self.header_offsets, self.names.offsets.length // 4 - 1)
        add_bit(&self.has_headers, self.rows, count != 0)
        return 0

    cdef int add_odd_headers(self, bytes block) except -1:
        """The same by way of the definition."""
        from fumarole.protocols.columns import said

        cdef bytes encoded
        producer, metadata, others = said(block)
        encoded = b"" if producer is None else producer.encode()
        add_text(&self.producers, encoded, len(encoded))
        add_bit(&self.has_producer, self.rows, producer is not None)
        for name, texts in others.items():
            encoded = name.encode()
            add_text(&self.names, encoded, len(encoded))
            for text in texts:
                encoded = text.encode()
                add_text(&self.texts, encoded, len(encoded))
            append_offset(&self.text_offsets, self.texts.offsets.length // 4 - 1)
        append_offset(&self.header_offsets, self.names.offsets.length // 4 - 1)
        add_bit(&self.has_headers, self.rows, len(others) != 0)
        if metadata is not None:
            encoded = metadata.encode()
            add_text(&self.metadata, encoded, len(encoded))
            append_offset(&self.metadata_rows, self.rows)
        return 0

    def reclaim(self):
        """Gives back what was received and not yet made into anything: the beginning of an operation."""
        self.needed = 0
        return taken(&self.pending)

    def take(self):
        """What was gathered."""
        from fumarole.protocols.columns import Columns, Texts

        size = self.bytes_gathered()
        columns = Columns(
            self.rows,
            taken(&self.times),
            Texts(taken(&self.topics.offsets), taken(&self.topics.data)),
            Texts(taken(&self.payloads.offsets), taken(&self.payloads.data)),
            taken(&self.values),
            taken(&self.has_value),
            Texts(taken(&self.producers.offsets), taken(&self.producers.data)),
            taken(&self.has_producer),
            taken(&self.header_offsets),
            taken(&self.has_headers),
            Texts(taken(&self.names.offsets), taken(&self.names.data)),
            taken(&self.text_offsets),
            Texts(taken(&self.texts.offsets), taken(&self.texts.data)),
            Texts(taken(&self.metadata.offsets), taken(&self.metadata.data)),
            taken(&self.metadata_rows),
            size,
        )
        self.begin()
        return columns
