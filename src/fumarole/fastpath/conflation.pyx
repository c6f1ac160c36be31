# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""What waits for a consumer with `every`: the copy of `Held` in exchange/conflation.py, whose tests hold both equal.

A message without headers and without a reply that comes for a known topic is nothing but its payload, which is written over the
one that waits. That is all that such a message costs. Others wait as publications.

Sensors that are read in turn publish in the same order again and again. So each entry knows which one followed it the last time, and
that one is tried before the key is looked up.
"""

from cpython.ref cimport Py_DECREF, Py_INCREF
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcmp, memcpy

from fumarole.fastpath.hashing cimport fumarole_hash_of

from fumarole.core.publication import Publication

cdef int FREE = 0
cdef int NOTHING = 1            # is known, and nothing waits
cdef int PAYLOAD = 2
cdef int PUBLICATION = 3
cdef uint32_t GONE = 0xFFFFFFFF
cdef Py_ssize_t FIRST_SLOTS = 64
cdef Py_ssize_t SLACK = 64      # bytes that an entry may have too many for its payload
cdef int MOST_LUCK = 8          # wrong guesses in a row, then topics are looked up until some come in the same order again

# Python's own secret of this process.
cdef uint64_t seed = <uint64_t><Py_ssize_t>hash("fumarole.held") ^ <uint64_t>0x9E3779B97F4A7C15


cdef class Held:
    def __dealloc__(self):
        self.clear()

    def __len__(self):
        return self.known

    def __contains__(self, str key):
        return self.find(key) != NULL

    def waiting(self):
        cdef Py_ssize_t place, count = 0
        for place in range(self.used):
            count += self.entries[place].state > NOTHING
        return count

    def know(self, str key):
        cdef Py_ssize_t length, place
        cdef const char* text = PyUnicode_AsUTF8AndSize(key, &length)
        cdef Waiting* entry = self.find(key)
        cdef char* data
        if entry != NULL:
            self.drop(entry)
            return
        self.grow()
        data = <char*>malloc(max(length, 1))
        if data == NULL:
            raise MemoryError
        memcpy(data, text, length)
        if self.first_free:
            place = self.first_free - 1
            self.first_free = self.entries[place].hash
        else:
            place = self.used
            self.used += 1
        entry = &self.entries[place]
        entry.hash, entry.data, entry.publication = fumarole_hash_of(seed, text, length), data, NULL
        entry.key, entry.payload, entry.capacity, entry.state, entry.following = length, 0, length, NOTHING, 0
        self.known += 1
        self.seat(place)

    def hold(self, str key, publication):
        cdef Waiting* entry = self.find(key)
        cdef bint replaced = self.drop(entry)
        Py_INCREF(publication)
        entry.publication, entry.state = <void*>publication, PUBLICATION
        return replaced

    def take(self, str key):
        cdef Waiting* entry = self.find(key)
        if entry == NULL or entry.state == NOTHING:
            return None
        if entry.state == PAYLOAD:
            taken = Publication(key, entry.data[entry.key:entry.key + entry.payload])
        else:
            taken = <object>entry.publication
        self.drop(entry)
        return taken

    def forget(self, str key):
        cdef Py_ssize_t length, place, at
        cdef const char* text = PyUnicode_AsUTF8AndSize(key, &length)
        cdef Waiting* entry
        at = self.slot_of(text, length, fumarole_hash_of(seed, text, length))
        if at < 0:
            return
        place = self.slots[at] - 1
        entry = &self.entries[place]
        self.drop(entry)
        free(entry.data)
        entry.data, entry.state = NULL, FREE
        entry.hash, self.first_free = self.first_free, place + 1
        self.slots[at] = GONE
        self.known -= 1

    def clear(self):
        cdef Py_ssize_t place
        for place in range(self.used):
            self.drop(&self.entries[place])
            free(self.entries[place].data)
        free(self.entries)
        free(self.slots)
        self.entries, self.slots = NULL, NULL
        self.used = self.capacity = self.known = self.first_free = self.slot_count = self.slots_used = 0

    cdef int hold_payload(
        self, const char* key, Py_ssize_t length, const char* payload, Py_ssize_t payload_length
    ) except -1:
        """A message that is nothing but its payload. 0: the key is not known; 1: it waits; 2: in place of another."""
        cdef Py_ssize_t at, place
        cdef Waiting* entry = self.guess(key, length)
        cdef int replaced
        if entry == NULL:
            at = self.slot_of(key, length, fumarole_hash_of(seed, key, length))
            if at < 0:
                return 0
            place = self.slots[at] - 1
            entry = &self.entries[place]
            if self.latest < self.used:
                if self.entries[self.latest].following == place:
                    self.luck = min(self.luck + 1, MOST_LUCK)
                self.entries[self.latest].following = place
            self.latest = place
        replaced = entry.state > NOTHING
        if entry.state == PUBLICATION:
            self.drop(entry)
        self.room_for(entry, length + payload_length)
        memcpy(entry.data + length, payload, payload_length)
        entry.payload, entry.state = payload_length, PAYLOAD
        return 1 + replaced

    cdef Waiting* guess(self, const char* key, Py_ssize_t length) noexcept:
        """The entry after the latest, as the last time, if it has this key. Sensors that are read in turn keep their order."""
        cdef Waiting* entry
        cdef Py_ssize_t place
        if self.luck <= 0 or self.latest >= self.used:
            return NULL
        place = self.entries[self.latest].following
        if place < self.used:
            entry = &self.entries[place]
            if entry.state != FREE and entry.key == length and memcmp(entry.data, key, length) == 0:
                self.latest = place
                return entry
        self.luck -= 1
        return NULL

    cdef Py_ssize_t slot_of(self, const char* key, Py_ssize_t length, uint64_t hash) noexcept:
        """Where the key is among the slots; -1: nowhere."""
        cdef Py_ssize_t at
        cdef Waiting* entry
        if self.slot_count == 0:
            return -1
        at = hash & (self.slot_count - 1)
        while self.slots[at]:
            if self.slots[at] != GONE:
                entry = &self.entries[self.slots[at] - 1]
                if entry.hash == hash and entry.key == length and memcmp(entry.data, key, length) == 0:
                    return at
            at = (at + 1) & (self.slot_count - 1)
        return -1

    cdef Waiting* find(self, str key) except? NULL:
        cdef Py_ssize_t length, at
        cdef const char* text = PyUnicode_AsUTF8AndSize(key, &length)
        at = self.slot_of(text, length, fumarole_hash_of(seed, text, length))
        return NULL if at < 0 else &self.entries[self.slots[at] - 1]

    cdef int room_for(self, Waiting* entry, Py_ssize_t total) except -1:
        """Makes its memory about as long as this."""
        cdef char* data
        if total > entry.capacity or entry.capacity > 2 * total + SLACK:
            data = <char*>realloc(entry.data, max(total, 1))
            if data == NULL:
                raise MemoryError
            entry.data, entry.capacity = data, total
        return 0

    cdef bint drop(self, Waiting* entry) noexcept:
        """What waits is dropped. False: nothing did."""
        cdef bint waited = entry.state > NOTHING
        cdef void* publication = entry.publication
        entry.publication = NULL
        if waited:
            entry.state = NOTHING
        if publication != NULL:
            Py_DECREF(<object>publication)
        return waited

    cdef int grow(self) except -1:
        """Makes room for one more."""
        cdef Py_ssize_t capacity, place
        cdef void* grown
        if self.used == self.capacity and not self.first_free:
            capacity = max(FIRST_SLOTS, self.capacity + self.capacity // 2)
            grown = realloc(self.entries, capacity * sizeof(Waiting))
            if grown == NULL:
                raise MemoryError
            self.entries, self.capacity = <Waiting*>grown, capacity
        if 4 * (self.slots_used + 1) > 3 * self.slot_count:
            capacity = FIRST_SLOTS
            while 2 * (self.known + 1) > capacity:
                capacity *= 2
            grown = calloc(capacity, sizeof(uint32_t))
            if grown == NULL:
                raise MemoryError
            free(self.slots)
            self.slots, self.slot_count, self.slots_used = <uint32_t*>grown, capacity, 0
            for place in range(self.used):
                if self.entries[place].state != FREE:
                    self.seat(place)
        return 0

    cdef void seat(self, Py_ssize_t place) noexcept:
        """Puts an entry into the slot of its hash, or the next that never had one."""
        cdef Py_ssize_t at = self.entries[place].hash & (self.slot_count - 1)
        while self.slots[at]:
            at = (at + 1) & (self.slot_count - 1)
        self.slots[at] = place + 1
        self.slots_used += 1
