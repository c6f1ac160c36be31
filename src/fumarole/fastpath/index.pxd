# C types for core/index.py, which is compiled under this name.

import cython

cdef class Level:
    cdef public str word
    cdef public Level child
    cdef public dict literals
    cdef public Globs globs
    cdef public Level one
    cdef public Level some
    cdef public Level many
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
    cdef public Level _root
    cdef public Py_ssize_t _size
    cdef public Py_ssize_t _repeating
    cdef public dict _idle
    cdef public long long version
    cdef public long long looked_at
    @cython.locals(level=Level, child=Level)
    cpdef bint add(self, tuple pattern, object value) except -1
    @cython.locals(level=Level, child=Level)
    cpdef bint remove(self, tuple pattern, object value) except -1
    @cython.locals(path=list, depth=Py_ssize_t)
    cdef _prune(self, tuple pattern)
    @cython.locals(found=list, at=list, following=list, level=Level, child=Level, word=str)
    cpdef list match(self, list words)

cdef bint _is_empty(Level level)
cdef _add_value(Level level, object value)
cdef _remove_value(Level level, object value)
cdef Level _child(Level level, object word)
@cython.locals(child=Level)
cdef Level _grow(Level level, object word)
cdef _cut(Level level, object word)
