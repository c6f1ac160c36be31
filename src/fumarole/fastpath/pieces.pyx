# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""exchange/pieces.py, compiled: from the number in a payload to the plan of its message, without an object for either."""

from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_CheckExact
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_CheckExact
from libc.math cimport INFINITY
from libc.stdlib cimport free, malloc

from fumarole.fastpath.json_paths cimport (
    FALSITY, MISSING, NO_OBJECT, NOT_SURE, NUMBER, OF_NO_KIND, TRUTH, WHOLE_NUMBER, Found, JsonPaths
)
from fumarole.fastpath.plans cimport Plan

from fumarole.core.query.parts import VALUE
from fumarole.exchange import pieces as pure

cdef long long SAFE = 1 << 53
cdef Py_ssize_t PLANS_KEPT = pure.PLANS_KEPT
cdef object PIECE_OF_MISSING = pure.MISSING, PIECE_OF_TRUE = pure.TRUE, PIECE_OF_FALSE = pure.FALSE
cdef object PIECE_OF_NO_KIND = pure.OF_NO_KIND


cdef inline bint is_exact(object value, double* exact) noexcept:
    """Is it a number that a double has?"""
    cdef long long whole
    cdef int overflow = 0
    if PyFloat_CheckExact(value):
        exact[0] = PyFloat_AS_DOUBLE(value)
        return True
    if not PyLong_CheckExact(value):
        return False
    whole = PyLong_AsLongLongAndOverflow(value, &overflow)
    exact[0] = <double>whole
    return overflow == 0 and -SAFE < whole < SAFE


cdef class Cuts:
    def __init__(self, field, numbers):
        cdef Py_ssize_t at
        self.field = field
        self.numbers = sorted(numbers)
        self.count = len(self.numbers)
        self.is_value = field == VALUE
        self.paths = JsonPaths((field.path,)) if field.path else None
        if all([float(number) == number for number in self.numbers]):
            self.exact = <double*>malloc((self.count + 1) * sizeof(double))
            if self.exact == NULL:
                raise MemoryError
            for at in range(self.count):
                self.exact[at] = self.numbers[at]

    def __dealloc__(self):
        free(self.exact)

    def piece(self, value):
        """The piece that a value is in; None: it is in none."""
        cdef double exact
        if self.exact != NULL and is_exact(value, &exact):
            return self.piece_of(exact)
        return pure.Cuts.piece(self, value)

    cdef Py_ssize_t piece_of(self, double value) noexcept:
        cdef Py_ssize_t low = 0, high = self.count, middle
        while low < high:
            middle = (low + high) >> 1
            if self.exact[middle] < value:
                low = middle + 1
            else:
                high = middle
        return 2 * low + (low < self.count and self.exact[low] == value)


cdef class Pieces:
    def __init__(self, Cuts cuts):
        self.cuts = cuts
        self.plans = {}
        self.low = INFINITY
        self.high = -INFINITY

    def find(self, value):
        """The plan of a message with this value; None: it is not known."""
        return self.of_value(value)

    def keep(self, value, Plan plan not None):
        """This is the plan of every message whose value is in the same piece."""
        piece = self.cuts.piece(value)
        if piece is not None:
            if len(self.plans) >= PLANS_KEPT:
                self.plans.clear()
            self.plans[piece] = plan

    cdef Plan of_value(self, object value):
        cdef double exact
        if self.cuts.exact != NULL and is_exact(value, &exact):
            return self.of_number(exact)
        return self.plans.get(self.cuts.piece(value))

    cdef Plan of_number(self, double value):
        """`exact` is not NULL."""
        cdef Cuts cuts = self.cuts
        cdef Py_ssize_t piece, place
        cdef Plan plan
        if self.low < value < self.high:
            return self.latest
        piece = cuts.piece_of(value)
        plan = self.plans.get(piece)
        if plan is not None and not piece & 1:
            place = piece >> 1
            self.low = cuts.exact[place - 1] if place else -INFINITY
            self.high = cuts.exact[place] if place < cuts.count else INFINITY
            self.latest = plan
        return plan

    cdef Plan of_payload(self, const char* at, Py_ssize_t length):
        """The plan of a message with this payload; None: it is not known here."""
        cdef JsonPaths paths = self.cuts.paths
        cdef Found* found
        cdef int said = paths.scan(at, length)
        if said == NOT_SURE:
            return None
        found = paths.found
        if said == NO_OBJECT or found.kind == MISSING:
            return self.plans.get(PIECE_OF_MISSING)
        if found.kind == NUMBER or found.kind == WHOLE_NUMBER:
            if self.cuts.exact != NULL:
                return self.of_number(found.number)
            return self.plans.get(self.cuts.piece(paths.value(0)))
        if found.kind == TRUTH:
            return self.plans.get(PIECE_OF_TRUE)
        if found.kind == FALSITY:
            return self.plans.get(PIECE_OF_FALSE)
        return self.plans.get(PIECE_OF_NO_KIND) if found.kind == OF_NO_KIND else None
