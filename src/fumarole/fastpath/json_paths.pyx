# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""A few fields of a JSON payload, found in one walk over its bytes, without an object for anything else.

`core/query/message.py` (json_object) defines which payloads are objects, and what their fields are. The walk checks all of the
payload, not only the fields that are asked for: its grammar, its UTF-8, that no object has a key twice. Whatever is unusual or
wrong, the definition decides: then the walk says NOT_SURE. tests/fastpath/test_json_paths.py holds both equal.

    $.air.hpa   $.ok                    {"ts": "12:00", "air": {"hpa": 931.25, "trend": -0.5}, "ok": true}

    air ── hpa      931.25              The steps of all paths are a tree. A key is looked for among the steps that
    ok              true                may follow here; below a key that is no step nothing is looked for.

Unusual are: escapes in keys and in texts that are asked for, escaped surrogates, numbers that no double has, more than DEEPEST
levels, very many keys.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.float cimport PyFloat_FromDouble
from cpython.long cimport PyLong_FromLongLong
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy

from fumarole.fastpath.numbers cimport is_blank, number
from fumarole.fastpath.texts cimport Slice, after_letter

from fumarole.core.query.message import LONGEST_JSON as PURE_LONGEST_JSON, OTHER
from fumarole.core.query.tree import DEEPEST_PATH

cdef extern from *:
    """
    #define DEEPEST 32
    #define MOST_KEYS 256           /* of all objects that are open at once */
    #define OF_ONE_OBJECT 64        /* more would have to be compared with each other */
    #define LONGEST_DIGITS 100      /* characters of a number */
    #define EXACT_DIGITS 15
    #define SAFE 9007199254740992.0
    #define AN_ARRAY -1

    /* The bytes of eight that end a run of usual letters in a string: quote, backslash, control characters, no ASCII. The highest
       bit of such a byte is set; above the first one, some may be set that are none. */
    static inline uint64_t fumarole_unusual(uint64_t eight) {
        const uint64_t each = 0x0101010101010101ull, high = 0x8080808080808080ull;
        const uint64_t quote = eight ^ 0x22 * each, backslash = eight ^ 0x5C * each;
        return (((quote - each) & ~quote) | ((backslash - each) & ~backslash) | (eight - 0x20 * each) | eight) & high;
    }
    static inline int fumarole_first(uint64_t unusual) {
    #if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        return __builtin_clzll(unusual) >> 3;
    #else
        return __builtin_ctzll(unusual) >> 3;
    #endif
    }
    """
    const int DEEPEST, MOST_KEYS, OF_ONE_OBJECT, AN_ARRAY
    const Py_ssize_t LONGEST_DIGITS, EXACT_DIGITS
    const double SAFE
    uint64_t fumarole_unusual(uint64_t eight) nogil
    int fumarole_first(uint64_t unusual) nogil

assert LONGEST_JSON == PURE_LONGEST_JSON
assert DEEPEST < DEEPEST_PATH


cdef struct Level:
    # An array or object that is open.
    int step            # that leads here; -1: nothing in it is asked for
    int first           # its first key; AN_ARRAY
    uint64_t seen       # a bit for each of its keys: where the bit is free, the key is new


cdef struct Walk:
    const char* at
    const char* end
    int depth
    int keys
    Level levels[32]
    Slice names[256]


cdef Walk walk          # one at a time, and no payload needs another


cdef inline void skip_blanks() noexcept:
    while walk.at < walk.end and is_blank(walk.at[0]):
        walk.at += 1


cdef const char* after_escape(const char* at, const char* end) noexcept:
    """Behind the escape that begins here; NULL: it is none, or half a surrogate pair, or one of two that make a pair."""
    cdef int each
    cdef char c
    if end - at < 2:
        return NULL
    c = at[1]
    if c != c"u":
        return at + 2 if c in b'"\\/bfnrt' else NULL
    if end - at < 6:
        return NULL
    for each in range(2, 6):
        c = at[each]
        if not (c"0" <= c <= c"9" or c"a" <= c <= c"f" or c"A" <= c <= c"F"):
            return NULL
    if (at[2] == c"d" or at[2] == c"D") and at[3] >= c"8":
        return NULL
    return at + 6


cdef inline const char* string_end(const char* at, const char* end, bint* escaped) noexcept:
    """The quote that ends the string whose letters begin here; NULL: not sure."""
    cdef uint64_t eight
    escaped[0] = False
    while True:
        while end - at >= 8:
            memcpy(&eight, at, 8)
            eight = fumarole_unusual(eight)
            if eight:
                at += fumarole_first(eight)
                break
            at += 8
        if at >= end:
            return NULL
        if at[0] == c'"':
            return at
        if at[0] == c"\\":
            escaped[0] = True
            at = after_escape(at, end)
        elif at[0] & 0x80:
            at = after_letter(at, end)
        elif <unsigned char>at[0] < 0x20:
            return NULL
        else:
            at += 1
        if at == NULL:
            return NULL


cdef inline const char* digits_end(const char* at, const char* end) noexcept:
    while at < end and c"0" <= at[0] <= c"9":
        at += 1
    return at


cdef inline const char* number_end(const char* at, const char* end, bint* whole) noexcept:
    """Where the number ends that begins here; NULL: not sure."""
    cdef const char* begin = at
    cdef const char* digits
    whole[0] = True
    at += at[0] == c"-"
    digits = at
    at = digits_end(at, end)
    if at == digits or (digits[0] == c"0" and at - digits > 1):
        return NULL
    if at < end and at[0] == c".":
        whole[0] = False
        digits = at + 1
        at = digits_end(digits, end)
        if at == digits:
            return NULL
    if at < end and (at[0] == c"e" or at[0] == c"E"):
        whole[0] = False
        digits = at + 1
        if digits < end and (digits[0] == c"+" or digits[0] == c"-"):
            digits += 1
        at = digits_end(digits, end)
        if at == digits:
            return NULL
    return at if at - begin <= LONGEST_DIGITS else NULL


cdef inline bint is_literal(const char* at, const char* end, const char* text, Py_ssize_t length) noexcept:
    return end - at >= length and memcmp(at, text, length) == 0


cdef inline bint is_new(Slice key) noexcept:
    """Is it the first key of this name in the innermost object? Then it is noted. False: no, or not sure."""
    cdef Level* level = &walk.levels[walk.depth - 1]
    cdef int each
    cdef uint64_t mark = <uint64_t>key.length, bit
    if key.length:
        mark += 7 * <unsigned char>key.at[0] + 31 * <unsigned char>key.at[key.length - 1]
        mark += 3 * <unsigned char>key.at[key.length >> 1]
    bit = <uint64_t>1 << (mark & 63)
    if walk.keys == MOST_KEYS or walk.keys - level.first == OF_ONE_OBJECT:
        return False
    if level.seen & bit:
        for each in range(level.first, walk.keys):
            if walk.names[each].length == key.length and memcmp(walk.names[each].at, key.at, key.length) == 0:
                return False
    level.seen |= bit
    walk.names[walk.keys] = key
    walk.keys += 1
    return True


cdef inline bint open_level(int step, int first) noexcept:
    """An array or object begins. False: that is deeper than is looked."""
    if walk.depth == DEEPEST:
        return False
    walk.levels[walk.depth].step = step
    walk.levels[walk.depth].first = first
    walk.levels[walk.depth].seen = 0
    walk.depth += 1
    walk.at += 1
    skip_blanks()
    return True


cdef inline bint close_level() noexcept:
    """After a value: closes what ends here, and moves behind the comma that follows. False: neither, so it is not JSON."""
    cdef Level* level
    while True:
        skip_blanks()
        if walk.depth == 0:
            return True
        if walk.at == walk.end:
            return False
        level = &walk.levels[walk.depth - 1]
        if walk.at[0] == c",":
            walk.at += 1
            skip_blanks()
            return True
        if walk.at[0] != (c"]" if level.first == AN_ARRAY else c"}"):
            return False
        if level.first != AN_ARRAY:
            walk.keys = level.first
        walk.depth -= 1
        walk.at += 1


cdef class JsonPaths:
    """Some paths. What payloads have at their ends, `reads` says."""

    def __init__(self, tuple paths):
        cdef Py_ssize_t place, keys = sum([len(path) for path in paths])
        cdef int at
        self.paths = paths
        self.keys = []
        self.steps = <Step*>malloc((keys + 1) * sizeof(Step))
        self.found = <Found*>malloc(max(len(paths), 1) * sizeof(Found))
        if self.steps == NULL or self.found == NULL:
            raise MemoryError
        self.step(-1, b"")
        for place, path in enumerate(paths):
            at = 0
            for key in path:
                at = self.step(at, key.encode("utf-8", "surrogatepass"))
            self.steps[at].place = place

    def __dealloc__(self):
        free(self.steps)
        free(self.found)

    cdef int step(self, int parent, bytes key) except -1:
        """The step with this key that follows another: one more, where there is none yet."""
        cdef int at = -1 if parent < 0 else self.steps[parent].child
        cdef Step* made
        while at >= 0:
            if self.keys[at] == key:
                return at
            at = self.steps[at].next
        made = &self.steps[self.used]
        made.key.at = PyBytes_AS_STRING(key)
        made.key.length = PyBytes_GET_SIZE(key)
        made.child = made.place = made.next = -1
        self.keys.append(key)
        if parent >= 0:
            made.next = self.steps[parent].child
            self.steps[parent].child = self.used
        self.used += 1
        return self.used - 1

    def reads(self, bytes payload):
        """By path, what the payload has there; None where that is to be found out by the definition."""
        cdef int said = self.scan(PyBytes_AS_STRING(payload), PyBytes_GET_SIZE(payload))
        cdef Py_ssize_t place
        if said == NOT_SURE:
            return None
        if said == NO_OBJECT:
            return dict.fromkeys(self.paths)
        return {path: self.value(place) for place, path in enumerate(self.paths)}

    cdef object value(self, Py_ssize_t place):
        cdef Found* found = &self.found[place]
        if found.kind == MISSING:
            return None
        if found.kind == WHOLE_NUMBER:
            return PyLong_FromLongLong(<long long>found.number)
        if found.kind == NUMBER:
            return PyFloat_FromDouble(found.number)
        if found.kind == TEXT:
            return PyUnicode_DecodeUTF8(found.text.at, found.text.length, NULL)
        return OTHER if found.kind == OF_NO_KIND else found.kind == TRUTH

    cdef int scan(self, const char* at, Py_ssize_t length) except -1:
        """Walks over a payload. NO_OBJECT: it has no fields. SCANNED: `found` has them. NOT_SURE: the definition decides."""
        cdef Py_ssize_t each
        cdef int step = 0
        cdef Level* level
        walk.at = at
        walk.end = at + length
        walk.depth = walk.keys = 0
        skip_blanks()
        if length > LONGEST_JSON or walk.at == walk.end or walk.at[0] != c"{":
            return NO_OBJECT
        for each in range(len(self.paths)):
            self.found[each].kind = MISSING
        while True:
            if not value_at(self, step) or not close_level():
                return NOT_SURE
            if walk.depth == 0:
                return SCANNED if walk.at == walk.end else NOT_SURE
            level = &walk.levels[walk.depth - 1]
            if level.first == AN_ARRAY:
                step = -1
            else:
                step = key_at(self, level.step)
                if step < -1:
                    return NOT_SURE


def reads_of(tuple paths):
    """What finds the fields under these paths."""
    return JsonPaths(paths).reads


cdef inline int key_at(JsonPaths paths, int step) noexcept:
    """Moves behind a key and its colon. The step that it is, of those that follow another; -1: it is none; -2: not sure."""
    cdef Slice key
    cdef Step* each
    cdef bint escaped
    cdef const char* quote
    if walk.at == walk.end or walk.at[0] != c'"':
        return -2
    key.at = walk.at + 1
    quote = string_end(key.at, walk.end, &escaped)
    if quote == NULL or escaped:
        return -2
    key.length = quote - key.at
    walk.at = quote + 1
    skip_blanks()
    if walk.at == walk.end or walk.at[0] != c":" or not is_new(key):
        return -2
    walk.at += 1
    skip_blanks()
    if step >= 0:
        step = paths.steps[step].child
    while step >= 0:
        each = &paths.steps[step]
        if each.key.length == key.length and memcmp(each.key.at, key.at, key.length) == 0:
            return step
        step = each.next
    return -1


cdef inline bint value_at(JsonPaths paths, int step) except -1:
    """Moves behind a value, or to the first one in it, with the keys on the way there. False: not sure."""
    cdef Found* found
    cdef int place
    cdef char c
    while True:
        if walk.at == walk.end:
            return False
        place = paths.steps[step].place if step >= 0 else -1
        found = &paths.found[place] if place >= 0 else NULL
        c = walk.at[0]
        if c != c"{" and c != c"[":
            return scalar_at(c, found)
        if found != NULL:
            found.kind = OF_NO_KIND
        if c == c"{":
            if not open_level(step, walk.keys):
                return False
            if walk.at < walk.end and walk.at[0] == c"}":
                return True
            step = key_at(paths, step)
            if step < -1:
                return False
        else:
            if not open_level(-1, AN_ARRAY):
                return False
            if walk.at < walk.end and walk.at[0] == c"]":
                return True
            step = -1


cdef inline bint scalar_at(char c, Found* found) except -1:
    """The same for a value that is neither array nor object. It is noted where one is asked for."""
    cdef const char* begin = walk.at
    cdef const char* behind
    cdef bint flag
    if c == c'"':
        behind = string_end(begin + 1, walk.end, &flag)
        if behind == NULL or (found != NULL and flag):
            return False
        walk.at = behind + 1
        if found != NULL:
            found.kind = TEXT
            found.text.at = begin + 1
            found.text.length = behind - begin - 1
        return True
    if c == c"-" or c"0" <= c <= c"9":
        behind = number_end(begin, walk.end, &flag)
        if behind == NULL:
            return False
        walk.at = behind
        return found == NULL or take_number(begin, behind - begin, flag, found)
    if is_literal(begin, walk.end, b"true", 4):
        if found != NULL:
            found.kind = TRUTH
        walk.at += 4
    elif is_literal(begin, walk.end, b"null", 4):
        walk.at += 4  # as if it were not there
    elif is_literal(begin, walk.end, b"false", 5):
        if found != NULL:
            found.kind = FALSITY
        walk.at += 5
    else:
        return False
    return True


cdef inline bint take_number(const char* at, Py_ssize_t length, bint whole, Found* found) except -1:
    """False: it may be one that no double has."""
    found.text.at = at
    found.text.length = length
    found.kind = WHOLE_NUMBER if whole else NUMBER
    if whole and length > EXACT_DIGITS:
        return False
    return number(found.text, &found.number) and -SAFE < found.number < SAFE
