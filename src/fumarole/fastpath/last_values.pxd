# cython: language_level=3
from libc.stdint cimport int64_t, uint32_t, uint64_t


cdef struct Value:
    # The newest message of a topic.
    uint64_t hash
    int64_t time
    char* data              # topic, headers, payload (owned)
    uint32_t topic          # bytes of each
    uint32_t headers
    uint32_t payload
    uint32_t capacity
    uint32_t following      # the place that was written after this one the last time


cdef class LastValues:
    cdef object clock
    cdef Value* values          # by place
    cdef Py_ssize_t used
    cdef Py_ssize_t capacity
    cdef uint32_t* slots        # by hash: the place and one more; 0: free
    cdef Py_ssize_t slot_count
    cdef long long most_bytes
    cdef readonly long long bytes
    cdef readonly long long refused
    cdef int64_t time           # of messages that are kept now
    cdef Py_ssize_t latest      # the place that was written last
    cdef int luck               # above 0: the order of topics is as before
    cdef int begin(self) except -1
    cdef int keep(
        self, const char* topic, Py_ssize_t topic_length, const char* headers, Py_ssize_t headers_length,
        const char* payload, Py_ssize_t payload_length,
    ) except -1
    cdef Py_ssize_t guess(self, const char* topic, Py_ssize_t length) noexcept
    cdef Py_ssize_t find(self, const char* topic, Py_ssize_t length, uint64_t hash) noexcept
    cdef int grow(self) except -1
    cdef object value(self, Py_ssize_t place)
    cdef void seat(self, Py_ssize_t place) noexcept
