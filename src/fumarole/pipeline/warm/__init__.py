"""The warm session: a resident process with a running Spark, which runs commands as children of its own (P9).

    fumarole pipeline rollup …  ──  arguments, folder, environment, stdin, stdout, stderr  ──▶  resident
                                                                                                  │ fork
    the exit code               ◀──────────────────────────────────────────────────────────────  child ── py4j ──▶ Java

Most of a question's time is the start of Java, of Spark, and of Python with pandas and pyarrow. The resident has done
all three. Each command runs in a child, forked after the imports, with the descriptors of the process that asked: so
its output, its exit code and its failures are those of a command that was started alone. Children attach to the same
Java, each with a Spark session of its own.

The resident itself has no thread and no connection to Java, so a fork copies nothing that is in use.
"""
