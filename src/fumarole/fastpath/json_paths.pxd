# cython: language_level=3
from fumarole.fastpath.texts cimport Slice


cdef extern from *:
    """
    enum { NO_OBJECT, SCANNED, NOT_SURE };                      /* what a scan found out about a payload */
    enum { MISSING, NUMBER, WHOLE_NUMBER, TEXT, TRUTH, FALSITY, OF_NO_KIND };      /* and what is at the end of a path */
    #define LONGEST_JSON 32768
    """
    enum: NO_OBJECT, SCANNED, NOT_SURE
    enum: MISSING, NUMBER, WHOLE_NUMBER, TEXT, TRUTH, FALSITY, OF_NO_KIND
    const Py_ssize_t LONGEST_JSON


cdef struct Found:
    # What a payload has at the end of a path.
    int kind
    double number       # exact
    Slice text          # a text without escapes, or the number as it is written


cdef struct Step:
    # One key of a path. Paths that begin alike share their beginning: this is a tree.
    Slice key
    int child           # the first key that may follow; -1: none
    int next            # another key in the place of this one; -1: none
    int place           # that of the path which ends here; -1: none does


cdef class JsonPaths:
    cdef readonly tuple paths
    cdef list keys          # has the bytes of the steps
    cdef Step* steps
    cdef int used
    cdef Found* found       # one for each path, as the last scan left them
    cdef int step(self, int parent, bytes key) except -1
    cdef int scan(self, const char* at, Py_ssize_t length) except -1
    cdef object value(self, Py_ssize_t place)
