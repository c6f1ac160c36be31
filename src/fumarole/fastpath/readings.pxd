# cython: language_level=3, cdivision=True
"""What a reading says, as it stands in a buffer: whose it is, and its value. For readers that see very many."""

from cpython.float cimport PyFloat_FromDouble
from cpython.long cimport PyLong_FromLongLong
from libc.stdint cimport uint64_t

from fumarole.fastpath.numbers cimport POWERS, take_digits
from fumarole.fastpath.texts cimport Slice, is_ascii, stripped

cdef extern from *:
    """
    #define IDENTITY 36
    #define OWN_TOPIC 9             /* "readings." */
    #define EXACT_DIGITS 15
    enum { ORDINARY, A_PRODUCER, NOT_ASCII };
    """
    const Py_ssize_t IDENTITY, OWN_TOPIC, EXACT_DIGITS
    enum: ORDINARY, A_PRODUCER, NOT_ASCII


cdef inline bint is_hexadecimal(char c) noexcept:
    return c"0" <= c <= c"9" or c"a" <= c <= c"f"


cdef inline int identity_in(Slice text, char* identity) noexcept:
    """Is it the identity of a producer, as `exchange/readings.py` (is_identity) has it? Written in small letters if it is.

    Other letters than ASCII's are not looked at: some of them are white space.
    """
    cdef Py_ssize_t each
    cdef char c
    if not is_ascii(text):
        return NOT_ASCII
    text = stripped(text.at, text.at + text.length)
    if text.length != IDENTITY:
        return ORDINARY
    for each in range(IDENTITY):
        c = text.at[each]
        if c"A" <= c <= c"F":
            c += 32
        if each == 8 or each == 13 or each == 18 or each == 23:
            if c != c"-":
                return ORDINARY
        elif not is_hexadecimal(c):
            return ORDINARY
        identity[each] = c
    if identity[14] != c"4" and identity[14] != c"5":
        return ORDINARY
    c = identity[19]
    return A_PRODUCER if c == c"8" or c == c"9" or c == c"a" or c == c"b" else ORDINARY


cdef inline object short_number(const char* at, Py_ssize_t length):
    """The number that a payload is, as Python has it, where it has few digits and nothing else; None: it is to be looked at."""
    cdef const char* p = at
    cdef const char* end = at + length
    cdef const char* begin
    cdef uint64_t mantissa = 0
    cdef Py_ssize_t digits = 0, places = 0, whole
    cdef bint negative = p < end and p[0] == c"-"
    cdef double value
    p += negative
    begin = p
    whole = take_digits(&p, end, &mantissa, &digits)
    if whole == 0 or (whole > 1 and begin[0] == c"0") or digits > EXACT_DIGITS:
        return None
    if p == end:
        return PyLong_FromLongLong(-<long long>mantissa if negative else <long long>mantissa)
    if p[0] != c".":
        return None
    p += 1
    places = take_digits(&p, end, &mantissa, &digits)
    if p != end or places == 0 or places > 22 or digits > EXACT_DIGITS:
        return None
    value = <double>mantissa / POWERS[places]  # both are exact, so this rounds once
    return PyFloat_FromDouble(-value if negative else value)


cdef inline bint may_be_number(char c) noexcept:
    """Can a payload that begins so be a number in JSON?"""
    return c == c"-" or c"0" <= c <= c"9" or c == c" " or c == c"\t" or c == c"\n" or c == c"\r"
