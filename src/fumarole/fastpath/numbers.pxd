# cython: language_level=3, cdivision=True
"""Payloads that are numbers, as `protocols/columns.py` (number) defines them."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.ref cimport PyObject
from libc.math cimport isfinite
from libc.stdint cimport uint64_t
from libc.string cimport memcpy

from fumarole.fastpath.texts cimport Slice

cdef extern from "Python.h":
    double PyOS_string_to_double(const char* text, char** end, PyObject* overflow) except? -1.0

cdef extern from *:
    """
    #define LONGEST_NUMBER 400
    static const double POWERS[] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                    1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    """
    const Py_ssize_t LONGEST_NUMBER
    const double* POWERS


cdef inline bint is_blank(char c) noexcept:
    return c == c" " or c == c"\t" or c == c"\n" or c == c"\r"


cdef inline Py_ssize_t take_digits(
    const char** at, const char* end, uint64_t* mantissa, Py_ssize_t* significant
) noexcept:
    """Moves past the digits at this place, and takes into the mantissa the first 15 that count. How many stand there."""
    cdef const char* p = at[0]
    while p < end and c"0" <= p[0] <= c"9":
        significant[0] += mantissa[0] != 0 or p[0] != c"0"
        if significant[0] <= 15:
            mantissa[0] = mantissa[0] * 10 + <uint64_t>(p[0] - c"0")
        p += 1
    cdef Py_ssize_t count = p - at[0]
    at[0] = p
    return count


cdef inline bint number(Slice payload, double* value) except -1:
    """Is it a number as JSON writes them, and finite? Up to 15 digits it is worked out here, exactly."""
    cdef const char* p = payload.at
    cdef const char* end = p + payload.length
    cdef const char* begin
    cdef uint64_t mantissa = 0
    cdef Py_ssize_t digits = 0, places = 0, exponent = 0
    cdef bint negative = False, negative_exponent = False
    cdef char copy[512]
    while p < end and is_blank(p[0]):
        p += 1
    while end > p and is_blank((end - 1)[0]):
        end -= 1
    begin = p
    if p < end and p[0] == c"-":
        negative = True
        p += 1
    if p + 1 < end and p[0] == c"0" and c"0" <= p[1] <= c"9":
        return False
    if not take_digits(&p, end, &mantissa, &digits):
        return False
    if p < end and p[0] == c".":
        p += 1
        places = take_digits(&p, end, &mantissa, &digits)
        if not places:
            return False
    if p < end and (p[0] == c"e" or p[0] == c"E"):
        p += 1
        if p < end and (p[0] == c"+" or p[0] == c"-"):
            negative_exponent = p[0] == c"-"
            p += 1
        if p == end or not c"0" <= p[0] <= c"9":
            return False
        while p < end and c"0" <= p[0] <= c"9":
            if exponent < 100000:
                exponent = exponent * 10 + (p[0] - c"0")
            p += 1
    if p != end:
        return False
    exponent = (-exponent if negative_exponent else exponent) - places
    if digits <= 15 and -22 <= exponent <= 22:
        # Both are exact as doubles, so one operation rounds once, and rightly.
        value[0] = <double>mantissa * POWERS[exponent] if exponent >= 0 else <double>mantissa / POWERS[-exponent]
        if negative:
            value[0] = -value[0]
    elif end - begin < LONGEST_NUMBER:
        memcpy(copy, begin, end - begin)
        copy[end - begin] = 0
        value[0] = PyOS_string_to_double(copy, NULL, NULL)
    else:
        value[0] = float(PyBytes_FromStringAndSize(begin, end - begin))
    return isfinite(value[0])
