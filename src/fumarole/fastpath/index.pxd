# C types for core/index.py, which is compiled under this name.

import cython

cdef class Node:
    cdef public dict literals
    cdef public Globs globs
    cdef public Node one
    cdef public Node some
    cdef public Node many
    cdef public bint repeats
    cdef public dict values
    cpdef bint is_empty(self)

cdef class Globs:
    cdef public dict shapes
    @cython.locals(length=Py_ssize_t, before=Py_ssize_t, after=Py_ssize_t, end=Py_ssize_t, table=dict, bucket=dict)
    cpdef match(self, str word, list following)

cdef class Index:
    cdef public Node _root
    cdef public Py_ssize_t _size
    cdef public Py_ssize_t _repeating
    @cython.locals(found=list, at=list, following=list, node=Node, child=Node, word=str)
    cpdef list match(self, list words)
