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
    @cython.locals(
        length=Py_ssize_t, looked_at=Py_ssize_t, before=Py_ssize_t, after=Py_ssize_t, size=Py_ssize_t, end=Py_ssize_t,
        places=Py_ssize_t, at=Py_ssize_t, table=dict, candidates=list, fixed=tuple, bucket=dict, head=str, tail=str,
    )
    cpdef Py_ssize_t match(self, str word, list following) except -1

cdef class Index:
    cdef public Node _root
    cdef public Py_ssize_t _size
    cdef public Py_ssize_t _repeating
    cdef public dict _idle
    cdef public long long version
    cdef public long long looked_at
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
