# C types for core/index.py, which is compiled under this name.

import cython

cdef class Node:
    cdef public str word
    cdef public Node child
    cdef public dict literals
    cdef public Globs globs
    cdef public Node one
    cdef public Node some
    cdef public Node many
    cdef public bint repeats
    cdef public object values
    cdef public long long version

cdef class Globs:
    cdef public dict shapes
    @cython.locals(length=Py_ssize_t, before=Py_ssize_t, after=Py_ssize_t, end=Py_ssize_t, table=dict, bucket=dict)
    cpdef match(self, str word, list following)

cdef class Index:
    cdef public Node _root
    cdef public Py_ssize_t _size
    cdef public Py_ssize_t _repeating
    cdef public dict _idle
    cdef public long long version
    @cython.locals(node=Node, child=Node)
    cpdef bint add(self, tuple pattern, object value) except -1
    @cython.locals(node=Node, child=Node)
    cpdef bint remove(self, tuple pattern, object value) except -1
    @cython.locals(path=list, depth=Py_ssize_t)
    cdef _prune(self, tuple pattern)
    @cython.locals(found=list, at=list, following=list, node=Node, child=Node, word=str)
    cpdef list match(self, list words)

cdef bint _is_empty(Node node)
cdef _add_value(Node node, object value)
cdef _remove_value(Node node, object value)
cdef Node _child(Node node, object word)
@cython.locals(child=Node)
cdef Node _grow(Node node, object word)
cdef _cut(Node node, object word)
