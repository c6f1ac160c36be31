# cython: language_level=3
from fumarole.fastpath.json_paths cimport JsonPaths
from fumarole.fastpath.plans cimport Plan


cdef class Cuts:
    cdef readonly object field
    cdef readonly list numbers
    cdef JsonPaths paths        # leads to the field; None: it is none of a JSON payload
    cdef bint is_value          # it is `$value`
    cdef double* exact          # the numbers; NULL: one of them is none that a double has
    cdef Py_ssize_t count
    cdef Py_ssize_t piece_of(self, double value) noexcept


cdef class Pieces:
    cdef readonly Cuts cuts
    cdef dict plans
    cdef double low, high       # between these two, values were in one piece last, and
    cdef Plan latest            # this is its plan: the next value is mostly there too
    cdef Plan of_number(self, double value)
    cdef Plan of_value(self, object value)
    cdef Plan of_payload(self, const char* at, Py_ssize_t length)
