# cython: language_level=3, cdivision=True
"""Pieces of a buffer, and what is asked of them: comparisons, white space, line ends."""

from libc.stdint cimport uint64_t
from libc.string cimport memchr, memcmp, memcpy

cdef struct Slice:
    # A piece of a buffer; `at` is NULL where there is none.
    const char* at
    Py_ssize_t length


cdef inline bint is_space(char c) noexcept:
    # What str.strip takes for white space, of ASCII.
    return c == c" " or 9 <= c <= 13 or 28 <= c <= 31


cdef inline Slice stripped(const char* at, const char* end) noexcept:
    cdef Slice text
    while at < end and is_space(at[0]):
        at += 1
    while end > at and is_space((end - 1)[0]):
        end -= 1
    text.at = at
    text.length = end - at
    return text


cdef inline bint same(Slice one, Slice other) noexcept:
    return one.length == other.length and memcmp(one.at, other.at, one.length) == 0


cdef inline bint is_text(Slice text, const char* other, Py_ssize_t length) noexcept:
    return text.length == length and memcmp(text.at, other, length) == 0


cdef inline bint is_ascii(Slice text) noexcept:
    cdef Py_ssize_t at = 0
    cdef uint64_t eight
    while at + 8 <= text.length:
        memcpy(&eight, text.at + at, 8)
        if eight & <uint64_t>0x8080808080808080:
            return False
        at += 8
    while at < text.length:
        if text.at[at] & 0x80:
            return False
        at += 1
    return True


cdef inline const char* line_end_in(const char* at, const char* end) noexcept:
    """The first CR LF from here on, or the end of all."""
    cdef const char* found = at
    while found < end:
        found = <const char*>memchr(found, c"\n", end - found)
        if found == NULL:
            return end
        if found > at and (found - 1)[0] == c"\r":
            return found - 1
        found += 1
    return end


cdef inline bint follows(char c, unsigned char lowest, unsigned char highest) noexcept:
    return lowest <= <unsigned char>c <= highest


cdef inline const char* after_letter(const char* at, const char* end) noexcept:
    """Behind the letter of UTF-8 that begins here and is none of ASCII; NULL: it is no UTF-8."""
    cdef unsigned char first = at[0], lowest = 0x80, highest = 0xBF
    cdef Py_ssize_t width, each
    if 0xC2 <= first <= 0xDF:
        width = 2
    elif 0xE0 <= first <= 0xEF:
        width = 3
        if first == 0xE0:
            lowest = 0xA0
        elif first == 0xED:  # surrogates
            highest = 0x9F
    elif 0xF0 <= first <= 0xF4:
        width = 4
        if first == 0xF0:
            lowest = 0x90
        elif first == 0xF4:
            highest = 0x8F
    else:
        return NULL
    if end - at < width or not follows(at[1], lowest, highest):
        return NULL
    for each in range(2, width):
        if not follows(at[each], 0x80, 0xBF):
            return NULL
    return at + width


cdef inline bint is_utf8(Slice text) noexcept:
    cdef const char* at = text.at
    cdef const char* end = at + text.length
    if is_ascii(text):
        return True
    while at < end:
        at = after_letter(at, end) if at[0] & 0x80 else at + 1
        if at == NULL:
            return False
    return True
