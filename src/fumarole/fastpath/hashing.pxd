# cython: language_level=3
from libc.stdint cimport uint64_t


cdef extern from *:
    """
    #ifndef FUMAROLE_HASHING
    #define FUMAROLE_HASHING
    static inline uint64_t fumarole_stir(uint64_t hash, uint64_t word) {
        hash = (hash ^ word) * 0xD6E8FEB86659FD93ull;
        return hash ^ (hash >> 32);
    }

    /* Of keys that clients choose: the seed is a secret of the process, so that none can choose keys that collide. */
    static inline uint64_t fumarole_hash_of(uint64_t seed, const char* text, Py_ssize_t length) {
        uint64_t hash = seed ^ (uint64_t)length, word;
        for (; length >= 8; text += 8, length -= 8) {
            memcpy(&word, text, 8);
            hash = fumarole_stir(hash, word);
        }
        if (length) {
            word = 0;
            memcpy(&word, text, (size_t)length);
            hash = fumarole_stir(hash, word);
        }
        return fumarole_stir(hash, seed);
    }
    #endif
    """
    uint64_t fumarole_hash_of(uint64_t seed, const char* text, Py_ssize_t length) nogil
