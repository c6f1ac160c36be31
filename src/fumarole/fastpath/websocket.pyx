# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Frames of WebSocket clients, a whole buffer at a time: the compiled copy of `Frames` in protocols/websocket.py.

Data frames are unmasked here. Every other frame, and every fault, is left to the definition: this copy hands it what it
has not taken, and takes its state over again.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport uint64_t
from libc.string cimport memcpy

from fumarole.protocols.websocket import LONGEST_CONTROL, LONGEST_HEAD, Frames as PureFrames
from fumarole.protocols.websocket import MOST_CONTROLS as PURE_MOST_CONTROLS

cdef Py_ssize_t MOST_CONTROLS = PURE_MOST_CONTROLS
cdef Py_ssize_t PIECE = LONGEST_HEAD + LONGEST_CONTROL      # that the definition gets at a time


cdef void unmask_into(char* to, const char* data, Py_ssize_t length, const unsigned char* key, Py_ssize_t offset) noexcept:
    cdef Py_ssize_t i = 0
    cdef uint64_t wide, word
    cdef unsigned char turned[8]
    for i in range(8):
        turned[i] = key[(offset + i) & 3]
    memcpy(&wide, turned, 8)
    i = 0
    while i + 8 <= length:
        memcpy(&word, data + i, 8)
        word ^= wide
        memcpy(to + i, &word, 8)
        i += 8
    while i < length:
        to[i] = <char>(<unsigned char>data[i] ^ turned[i & 7])
        i += 1


cdef class Frames:
    cdef object pure            # the definition: knows what is half received
    cdef public list controls
    cdef bint holds             # it holds the beginning of a frame
    cdef uint64_t left
    cdef Py_ssize_t offset
    cdef unsigned char key[4]
    cdef bint fragmented
    cdef bint ended

    def __init__(self):
        self.pure = PureFrames()
        self.controls = []

    def take(self, data):
        cdef Py_buffer view
        cdef bytes made, carried
        cdef Py_ssize_t at = 0, used, piece, filled = 0
        if self.controls:
            self.controls = []
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            # Frames carry less than they are long. What the definition holds was counted when it came.
            made = PyBytes_FromStringAndSize(NULL, view.len)
            while at < view.len and not self.ended:
                used = 0
                if not self.holds:
                    used = self.run(<const char*>view.buf + at, view.len - at, PyBytes_AS_STRING(made), &filled)
                    at += used
                if used == 0 and at < view.len:
                    piece = min(view.len - at, PIECE)
                    carried = self.by_definition(PyBytes_FromStringAndSize(<const char*>view.buf + at, piece))
                    memcpy(PyBytes_AS_STRING(made) + filled, PyBytes_AS_STRING(carried), len(carried))
                    filled += len(carried)
                    at += piece
            return made if filled == view.len else made[:filled]
        finally:
            PyBuffer_Release(&view)

    cdef Py_ssize_t run(self, const char* data, Py_ssize_t length, char* to, Py_ssize_t* filled) except -1:
        """Takes whole heads of data frames and what follows them. How many bytes it took."""
        cdef const unsigned char* at = <const unsigned char*>data
        cdef const unsigned char* end = at + length
        cdef Py_ssize_t size, wide
        cdef unsigned char first
        cdef uint64_t announced
        cdef int i
        while True:
            if self.left:
                size = end - at
                if <uint64_t>size > self.left:
                    size = <Py_ssize_t>self.left
                unmask_into(to + filled[0], <const char*>at, size, self.key, self.offset)
                filled[0] += size
                self.left -= <uint64_t>size
                self.offset = (self.offset + size) & 3
                at += size
                if self.left:
                    break
            if end - at < 6:
                break
            first = at[0]
            if (first & 0x7F) != (0 if self.fragmented else 2) or not at[1] & 0x80:
                break
            announced = at[1] & 0x7F
            wide = 2 if announced == 126 else 8 if announced == 127 else 0
            if end - at < 6 + wide:
                break
            if wide:
                announced = 0
                for i in range(wide):
                    announced = (announced << 8) | at[2 + i]
                if announced >> 63:
                    break
            at += 2 + wide
            memcpy(self.key, at, 4)
            at += 4
            self.left = announced
            self.offset = 0
            self.fragmented = not first & 0x80
        return <const char*>at - data

    cdef bytes by_definition(self, bytes rest):
        """What is no data frame, or not a whole head of one."""
        pure = self.pure
        pure._left, pure._key, pure._offset = self.left, PyBytes_FromStringAndSize(<char*>self.key, 4), self.offset
        pure._is_fragmented = self.fragmented
        carried = pure.take(rest)
        if pure.controls:
            self.controls = (self.controls + pure.controls)[-MOST_CONTROLS:]
        self.left, self.offset = pure._left, pure._offset & 3
        self.fragmented, self.ended, self.holds = pure._is_fragmented, pure._ended, bool(pure._head)
        if len(pure._key) == 4:
            memcpy(self.key, PyBytes_AS_STRING(pure._key), 4)
        return carried
