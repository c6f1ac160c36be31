"""The query language: SQL-like predicates over metadata of producers (M9, M10, M11) and over messages (F6).

One tree, several engines:

    text --parse--> tree --+-- holds     the definition: true, false or unknown for one producer or message
                           +-- compile   a closure: selected or not
                           +-- index     many standing queries against one producer's change, or one message

`tree` has the nodes, and their text again; `canonical` gives equivalent queries one form; `message` is a publication as
queries see it, and `parts` tells what decides a set from what is asked of each message; `view` is `select … where …`.
`holds` is small and meant to be read; the others are tested for equality with it, on tables of cases and on random
input.
"""
