# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""What waits to leave on one connection, and what a consumer and a namespace count: exchange/outbox.py, compiled.

Frames are kept in blocks of memory, so that they leave by one `sendmsg` without being copied or joined. A block is laid out
like a database page: the frames' bytes grow from the front, and from the back grow the marks that say where each frame ends
and whose it is, so that the oldest can be dropped whole (D6).

    | bytes of frame 0 | bytes of frame 1 | …  free  … | mark 1 | mark 0 |
                       ^ start                         (capacity)

A frame that is half sent cannot be dropped, nor can a control frame. When dropping meets one, it is moved to the `held`
blocks, which leave before all others.

The payload of a large message is not copied for each consumer. A frame with such a payload has a block of its own, with the
frame's head; the rest is `Shared` by all outboxes that send it, and freed by the last. Each outbox counts all of its bytes.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.ref cimport Py_INCREF, Py_XDECREF, PyObject
from libc.errno cimport EINTR, errno
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memset

from fumarole.exchange.counters import Counters as PureCounters
from fumarole.exchange.outbox import Overflow

cdef extern from "<sys/uio.h>" nogil:
    struct iovec:
        void* iov_base
        size_t iov_len

cdef extern from "<sys/socket.h>" nogil:
    struct msghdr:
        iovec* msg_iov
        size_t msg_iovlen
    ssize_t sendmsg(int descriptor, const msghdr* message, int flags)
    int MSG_DONTWAIT, MSG_NOSIGNAL

cdef extern from *:
    """
    #define BLOCK_SIZE 32768
    #define BLOCKS_KEPT 512
    #define SEND_AT_ONCE 64
    #define DROP_OLDEST 0
    #define DROP_NEWEST 1
    #define DISCONNECT 2
    """
    const Py_ssize_t BLOCK_SIZE
    const int BLOCKS_KEPT, SEND_AT_ONCE, DROP_OLDEST, DROP_NEWEST, DISCONNECT

cdef dict POLICIES = {
    Overflow.DROP_OLDEST: DROP_OLDEST,
    Overflow.DROP_NEWEST: DROP_NEWEST,
    Overflow.DISCONNECT: DISCONNECT,
}

# Blocks that are free again, for the next outbox that needs one: the memory just used is the memory still in the cache.
cdef Block* spare = NULL
cdef int spares = 0


cdef inline char* bytes_of(Block* block) noexcept:
    return <char*>(block + 1)


cdef inline Mark* mark_of(Block* block, Py_ssize_t frame) noexcept:
    return <Mark*>(bytes_of(block) + block.capacity) - (frame + 1)


cdef Shared* new_shared(Shared* grown, Py_ssize_t length) except NULL:
    """Memory for so many bytes, with one holder. `grown` is made larger, if it is not NULL; it has no other holder."""
    cdef Shared* shared = <Shared*>realloc(grown, sizeof(Shared) + length)
    if shared == NULL:
        raise MemoryError
    shared.holders = 1
    return shared


cdef void release(Shared* shared) noexcept:
    shared.holders -= 1
    if shared.holders == 0:
        free(shared)


cdef inline int parts_of(Block* block, iovec* parts) noexcept:
    """The one or two pieces of memory where the bytes of a block are that were not sent."""
    cdef int count = 0
    if block.shared == NULL:
        parts[0].iov_base = bytes_of(block) + block.start
        parts[0].iov_len = block.end - block.start
        return 1
    if block.start < block.head:
        parts[0].iov_base = bytes_of(block) + block.start
        parts[0].iov_len = block.head - block.start
        count = 1
    parts[count].iov_base = <void*>(block.tail + max(block.start - block.head, 0))
    parts[count].iov_len = block.end - max(block.start, block.head)
    return count + 1


cdef void copy_out(Block* block, char* place, Py_ssize_t length) noexcept:
    """The next so many bytes of a block."""
    cdef iovec parts[2]
    cdef int count = parts_of(block, parts), each
    cdef Py_ssize_t size
    for each in range(count):
        size = min(length, <Py_ssize_t>parts[each].iov_len)
        memcpy(place, parts[each].iov_base, size)
        place += size
        length -= size


cdef inline Py_ssize_t room_in(Block* block) noexcept:
    return block.capacity - block.end - (block.frames + 1) * <Py_ssize_t>sizeof(Mark)


cdef Block* new_block(Py_ssize_t length) except NULL:
    global spare, spares
    cdef Block* block
    cdef Py_ssize_t capacity = BLOCK_SIZE - <Py_ssize_t>sizeof(Block)
    if length + <Py_ssize_t>sizeof(Mark) > capacity:
        capacity = (length + <Py_ssize_t>sizeof(Mark) + 15) & ~15
    elif spare != NULL:
        block = spare
        spare = block.next
        spares -= 1
        block.next = NULL
        block.start = block.end = block.frames = block.first = 0
        return block
    return empty_block(capacity)


cdef Block* empty_block(Py_ssize_t capacity) except NULL:
    cdef Block* block = <Block*>malloc(sizeof(Block) + capacity)
    if block == NULL:
        raise MemoryError
    block.next = NULL
    block.capacity = capacity
    block.start = block.end = block.frames = block.first = 0
    block.shared = NULL
    return block


cdef void free_block(Block* block) noexcept:
    global spare, spares
    cdef Py_ssize_t frame
    for frame in range(block.first, block.frames):
        Py_XDECREF(<PyObject*>mark_of(block, frame).consumer)
    if block.shared != NULL:
        release(block.shared)
        free(block)
    elif block.capacity == BLOCK_SIZE - <Py_ssize_t>sizeof(Block) and spares < BLOCKS_KEPT:
        block.next = spare
        spare = block
        spares += 1
    else:
        free(block)


cdef void free_chain(Block* block) noexcept:
    cdef Block* following
    while block != NULL:
        following = block.next
        free_block(block)
        block = following


cdef Py_ssize_t messages_in(Block* block) noexcept:
    """Frames of consumers that are not wholly sent."""
    cdef Py_ssize_t frame, found = 0
    while block != NULL:
        for frame in range(block.first, block.frames):
            found += mark_of(block, frame).consumer != NULL
        block = block.next
    return found


cdef void sent(Block* block, Py_ssize_t length) noexcept:
    """Moves `start` on, past the frames that are wholly gone."""
    cdef Mark* mark
    block.start += length
    while block.first < block.frames:
        mark = mark_of(block, block.first)
        if mark.end > block.start:
            break
        Py_XDECREF(<PyObject*>mark.consumer)
        block.first += 1


cdef class Counters:
    def delivered(self):
        return PureCounters.delivered(self)

    def report(self):
        return PureCounters.report(self)


cdef class Consumer:
    def __init__(self, outlet, pattern, group, bytes key, sees=None):
        self.outlet = outlet
        self.pattern = pattern
        self.group = group
        self.key = key
        self.sees = sees
        self.count = 1
        self.seat = 0
        self.is_joined = hasattr(outlet, "joined")
        self.stage = None

    @property
    def stage(self):
        return self.passes

    @stage.setter
    def stage(self, stage):
        outlet = self.outlet
        self.passes = stage
        self.held = getattr(stage, "held", None)
        self.outbox = outlet.outbox if stage is None and getattr(outlet, "takes_nats_frames", False) else None
        self.readings = outlet.outbox if stage is None and getattr(outlet, "takes_readings", False) else None
        self.packets = outlet.outbox if stage is None and getattr(outlet, "takes_packets", False) else None
        if self.packets is not None:
            self.version = outlet.version
            self.largest = outlet.largest


cdef class Outbox:
    def __init__(self, limit, overflow, counters, ready, owner):
        self.ready = ready
        self.owner = owner
        self.takes_headers = False
        self.govern(limit, overflow, counters)

    def __dealloc__(self):
        free_chain(self.held)
        free_chain(self.oldest)

    def govern(self, limit, overflow, counters):
        self.limit = limit
        self.policy = POLICIES[overflow]
        self.counters = counters

    def has_room(self, Py_ssize_t weight):
        return self.size + weight <= self.limit and not self.overflowed and not self.doubted

    def push(self, bytes frame, Consumer consumer=None):
        cdef Py_ssize_t length = PyBytes_GET_SIZE(frame)
        cdef char* place = self.reserve(length, consumer)
        if place != NULL:
            memcpy(place, PyBytes_AS_STRING(frame), length)

    cdef char* reserve(self, Py_ssize_t length, Consumer consumer) except? NULL:
        """Room for a frame that the caller now writes; NULL: it was dropped."""
        if not self.admit(length, consumer):
            return NULL
        return self.append(False, length, NULL if consumer is None else <void*>consumer)

    cdef char* reserve_head(
        self, Py_ssize_t length, Shared* shared, const char* tail, Py_ssize_t tail_length, Consumer consumer
    ) except? NULL:
        """The same for a frame whose end stays where it is, in `shared`: room for its beginning."""
        cdef Block* block
        cdef Mark* mark
        if not self.admit(length + tail_length, consumer):
            return NULL
        block = empty_block((length + <Py_ssize_t>sizeof(Mark) + 15) & ~15)
        block.shared = shared
        shared.holders += 1
        block.tail = tail
        block.head = length
        block.end = length + tail_length
        block.frames = 1
        mark = mark_of(block, 0)
        mark.end = block.end
        mark.consumer = <void*>consumer
        Py_INCREF(consumer)
        self.link(False, block)
        return bytes_of(block)

    cdef bint admit(self, Py_ssize_t length, Consumer consumer) except -1:
        """Counts a frame of so many bytes in. False: it was dropped."""
        if self.size + length > self.limit and not self.make_room(length, consumer):
            return False
        if self.size == 0:
            self.ready.append(self.owner)
        self.size += length
        return True

    cdef int link(self, bint to_held, Block* block) noexcept:
        """A block becomes the last one."""
        cdef Block* last = self.held_last if to_held else self.newest
        if last != NULL:
            last.next = block
        elif to_held:
            self.held = block
        else:
            self.oldest = block
        if to_held:
            self.held_last = block
        else:
            self.newest = block
        return 0

    cdef char* append(self, bint to_held, Py_ssize_t length, void* consumer) except NULL:
        cdef Block* last = self.held_last if to_held else self.newest
        cdef Mark* mark
        cdef char* place
        if last == NULL or room_in(last) < length:
            last = new_block(length)
            self.link(to_held, last)
        place = bytes_of(last) + last.end
        last.end += length
        mark = mark_of(last, last.frames)
        mark.end = last.end
        mark.consumer = consumer
        if consumer != NULL:
            Py_INCREF(<object>consumer)
        last.frames += 1
        return place

    def take(self, Py_ssize_t most=1 << 62):
        """The oldest frames, whole, up to so many bytes (but at least one frame)."""
        cdef list taken = []
        cdef bytes frame
        cdef Py_ssize_t total = 0, length
        cdef Block* block
        while self.size > 0:
            block = self.held if self.held != NULL else self.oldest
            length = mark_of(block, block.first).end - block.start
            if taken and total + length > most:
                break
            while block.first < block.frames and (total == 0 or total + length <= most):
                if block.shared == NULL:
                    taken.append(PyBytes_FromStringAndSize(bytes_of(block) + block.start, length))
                else:
                    frame = PyBytes_FromStringAndSize(NULL, length)
                    copy_out(block, PyBytes_AS_STRING(frame), length)
                    taken.append(frame)
                total += length
                self.size -= length
                sent(block, length)
                if block.first < block.frames:
                    length = mark_of(block, block.first).end - block.start
            self.discard_first()
        return b"".join(taken)

    def cut(self, Py_ssize_t most):
        """What the socket did not take: the same as `take`, but of a longer frame no more than the beginning."""
        cdef Block* block = self.held if self.held != NULL else self.oldest
        cdef bytes beginning
        if block == NULL or mark_of(block, block.first).end - block.start <= most:
            return self.take(most)
        beginning = PyBytes_FromStringAndSize(NULL, most)
        copy_out(block, PyBytes_AS_STRING(beginning), most)
        self.size -= most
        sent(block, most)
        return beginning

    def send(self, int descriptor):
        """Writes to the socket what it takes. True: the outbox is empty."""
        cdef iovec parts[SEND_AT_ONCE + 1]
        cdef msghdr message
        cdef Block* block
        cdef Py_ssize_t written, wanted, length
        cdef int count
        while self.size > 0:
            count = 0
            wanted = 0
            block = self.held
            while block != NULL and count < SEND_AT_ONCE:
                count += parts_of(block, parts + count)
                wanted += block.end - block.start
                block = block.next
            block = self.oldest
            while block != NULL and count < SEND_AT_ONCE:
                count += parts_of(block, parts + count)
                wanted += block.end - block.start
                block = block.next
            memset(&message, 0, sizeof(message))
            message.msg_iov = parts
            message.msg_iovlen = count
            written = sendmsg(descriptor, &message, MSG_DONTWAIT | MSG_NOSIGNAL)
            if written < 0:
                if errno == EINTR:
                    continue
                return False  # full, or broken: then the transport finds out
            self.size -= written
            wanted -= written
            while written > 0:
                block = self.held if self.held != NULL else self.oldest
                length = min(written, block.end - block.start)
                sent(block, length)
                written -= length
                self.discard_first()
            if wanted > 0:
                return False
        return True

    def messages(self):
        return messages_in(self.oldest)

    def clear(self):
        free_chain(self.held)
        free_chain(self.oldest)
        self.held = self.held_last = self.oldest = self.newest = NULL
        self.size = 0

    cdef int discard_first(self) except -1:
        """Frees the first block if all of it is gone."""
        cdef Block* block
        if self.held != NULL:
            block = self.held
            if block.start == block.end:
                self.held = block.next
                if self.held == NULL:
                    self.held_last = NULL
                free_block(block)
        elif self.oldest != NULL:
            block = self.oldest
            if block.start == block.end:
                self.oldest = block.next
                if self.oldest == NULL:
                    self.newest = NULL
                free_block(block)
        return 0

    cdef bint make_room(self, Py_ssize_t length, Consumer consumer) except -1:
        if consumer is None:
            if self.size + length > 2 * self.limit:
                self.give_up()
                return False
            return True
        if self.policy == DISCONNECT:
            self.give_up()
        elif self.policy == DROP_OLDEST and length <= self.limit:
            self.drop_oldest(length)
        if self.overflowed or self.size + length > self.limit:
            consumer.dropped += 1
            self.counters.overflowed += 1
            return False
        return True

    cdef int give_up(self) except -1:
        if not self.overflowed:
            self.overflowed = True
            self.ready.append(self.owner)
        return 0

    cdef int drop_oldest(self, Py_ssize_t length) except -1:
        cdef Block* block
        cdef Mark* mark
        cdef Py_ssize_t begin, size
        while self.oldest != NULL and self.size + length > self.limit:
            block = self.oldest
            mark = mark_of(block, block.first)
            size = mark.end - block.start
            begin = mark_of(block, block.first - 1).end if block.first > 0 else 0
            if mark.consumer == NULL or block.start > begin:
                copy_out(block, self.append(True, size, NULL), size)
            else:
                (<Consumer>mark.consumer).dropped += 1
                self.counters.overflowed += 1
                self.size -= size
            sent(block, size)
            if block.start == block.end:
                self.oldest = block.next
                if self.oldest == NULL:
                    self.newest = NULL
                free_block(block)
        return 0
