"""The query language: SQL-like predicates over what producers say about themselves (M9, M10, M11).

One tree, several engines:

    text --parse--> tree --+-- holds     the definition: true, false or unknown for one producer
                           +-- compile   a closure: selected or not
                           +-- index     many standing queries against one producer's change

`tree` has the nodes, and their text again; `canonical` gives equivalent queries one form. `holds` is small and meant to
be read; the others are tested for equality with it, on a table of cases and on random input.
"""
