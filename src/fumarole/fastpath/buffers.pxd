# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Memory that grows, and columns of texts in it as Arrow lays them out. Inline: for loops that fill them by the million."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy


cdef struct Bytes:
    # Memory that grows.
    char* data
    Py_ssize_t length
    Py_ssize_t capacity


cdef struct TextColumn:
    Bytes offsets
    Bytes data


cdef inline int room(Bytes* memory, Py_ssize_t more) except -1:
    cdef Py_ssize_t capacity
    cdef char* grown
    if memory.length + more > memory.capacity:
        capacity = max(memory.capacity * 2, memory.length + more, 1024)
        grown = <char*>realloc(memory.data, capacity)
        if grown == NULL:
            raise MemoryError
        memory.data = grown
        memory.capacity = capacity
    return 0


cdef inline int append(Bytes* memory, const char* data, Py_ssize_t length) except -1:
    if memory.length + length > memory.capacity:
        room(memory, length)
    if length:  # memory that has no place yet must not be copied to, not even nothing
        memcpy(memory.data + memory.length, data, length)
    memory.length += length
    return 0


cdef inline int append_offset(Bytes* memory, Py_ssize_t value) except -1:
    cdef int32_t narrow = <int32_t>value
    return append(memory, <const char*>&narrow, 4)


cdef inline int add_text(TextColumn* column, const char* data, Py_ssize_t length) except -1:
    append(&column.data, data, length)
    return append_offset(&column.offsets, column.data.length)


cdef inline int add_bit(Bytes* bits, Py_ssize_t row, bint there) except -1:
    cdef char empty = 0
    if row & 7 == 0:
        append(bits, &empty, 1)
    if there:
        bits.data[row >> 3] |= 1 << (row & 7)
    return 0


cdef inline bytes taken(Bytes* memory):
    cdef bytes copy = PyBytes_FromStringAndSize(memory.data, memory.length)
    memory.length = 0
    return copy


cdef inline void free_column(TextColumn* column) noexcept:
    free(column.offsets.data)
    free(column.data.data)
