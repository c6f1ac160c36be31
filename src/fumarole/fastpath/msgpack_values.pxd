# cython: language_level=3, cdivision=True
"""MsgPack values as they leave, each in its shortest form, as `protocols/msgpack.py` (pack) writes them."""

from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_CheckExact
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy

from fumarole.fastpath.texts cimport Slice

cdef extern from *:
    """
    #define LONGEST_NUMBER_VALUE 9
    """
    const Py_ssize_t LONGEST_NUMBER_VALUE


cdef inline Py_ssize_t write_bytes(char* place, int first, uint64_t value, int width) noexcept:
    """The first byte of a value, and a number of so many bytes."""
    cdef int each
    place[0] = <char>first
    for each in range(width):
        place[1 + each] = <char>(value >> (8 * (width - 1 - each)) & 0xFF)
    return 1 + width


cdef inline Py_ssize_t write_whole(char* place, int64_t value) noexcept:
    cdef int size = 0                   # 1, 2, 4 or 8 bytes, as its logarithm
    if -32 <= value <= 127:
        place[0] = <char>value
        return 1
    if value >= 0:
        size = 0 if value <= 0xFF else 1 if value <= 0xFFFF else 2 if value <= 0xFFFFFFFF else 3
        return write_bytes(place, 0xCC + size, <uint64_t>value, 1 << size)
    size = 0 if value >= -0x80 else 1 if value >= -0x8000 else 2 if value >= -<int64_t>0x80000000 else 3
    return write_bytes(place, 0xD0 + size, <uint64_t>value, 1 << size)


cdef inline Py_ssize_t write_number(char* place, object value) except -1:
    """A float, or an integer of 64 bits with a sign. How many bytes it takes."""
    cdef double real
    cdef uint64_t bits
    if not PyFloat_CheckExact(value):
        return write_whole(place, value)
    real = PyFloat_AS_DOUBLE(value)
    memcpy(&bits, &real, 8)
    return write_bytes(place, 0xCB, bits, 8)


cdef inline Py_ssize_t text_head(Py_ssize_t length) noexcept:
    """Bytes that precede a text."""
    return 1 if length < 32 else 2 if length <= 0xFF else 3 if length <= 0xFFFF else 5


cdef inline int write_text(char* place, Slice text) noexcept:
    """It is UTF-8."""
    cdef Py_ssize_t head = text_head(text.length)
    if head == 1:
        place[0] = <char>(0xA0 | text.length)
    else:
        write_bytes(place, 0xD9 if head == 2 else 0xDA if head == 3 else 0xDB, <uint64_t>text.length, <int>head - 1)
    if text.length:
        memcpy(place + head, text.at, text.length)
    return 0
