# cython: language_level=3
from libc.stdint cimport uint32_t, uint64_t


cdef struct Waiting:
    # What is known of a key.
    uint64_t hash           # of a free one: the next that is free, and one more
    char* data              # key, then payload (owned)
    void* publication       # owned; NULL: none waits, or its payload does
    uint32_t key            # bytes of each
    uint32_t payload
    uint32_t capacity
    int state
    uint32_t following      # the place whose turn came after this one's the last time


cdef class Held:
    cdef Waiting* entries
    cdef Py_ssize_t used        # of the array, free ones included
    cdef Py_ssize_t capacity
    cdef Py_ssize_t known
    cdef Py_ssize_t first_free  # and one more; 0: none
    cdef uint32_t* slots        # by hash: the entry and one more; 0: free; GONE: it was there
    cdef Py_ssize_t slot_count
    cdef Py_ssize_t slots_used
    cdef Py_ssize_t latest      # the place that was held last
    cdef int luck               # above 0: the order of topics is as before
    cdef int hold_payload(
        self, const char* key, Py_ssize_t length, const char* payload, Py_ssize_t payload_length
    ) except -1
    cdef Waiting* guess(self, const char* key, Py_ssize_t length) noexcept
    cdef Py_ssize_t slot_of(self, const char* key, Py_ssize_t length, uint64_t hash) noexcept
    cdef Waiting* find(self, str key) except? NULL
    cdef int room_for(self, Waiting* entry, Py_ssize_t total) except -1
    cdef bint drop(self, Waiting* entry) noexcept
    cdef int grow(self) except -1
    cdef void seat(self, Py_ssize_t place) noexcept
