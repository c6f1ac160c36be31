"""A node that is killed hangs up at once, and its memory is freed afterwards. Not hot, but only C can say it.

The system frees the memory of a dying process before it closes its connections: milliseconds for the 42 MB of a small
node, seconds for one with millions of consumers, in which the other nodes go on sending to a dead node. Memory that another
process has too is not freed then. So a node has an heir: a process with the same memory and nothing else of it, no
file and no code, which sleeps until the node is dead. Then the system kills it too, and now the memory is freed.

    kill -9 ──► node: connections closed ──► heir: memory freed
"""

cdef extern from *:
    """
    #if defined(__linux__)
    #ifndef _GNU_SOURCE
    #define _GNU_SOURCE
    #endif
    #include <sched.h>
    #include <signal.h>
    #include <sys/prctl.h>
    #include <sys/syscall.h>
    #include <unistd.h>

    enum { FUMAROLE_STARTING, FUMAROLE_SLEEPS, FUMAROLE_FAILED };
    static volatile int fumarole_heir_state;
    static char fumarole_heir_stack[16384] __attribute__((aligned(64)));

    static int fumarole_heir_lives(void *node) {
        int alone = 0;
        prctl(PR_SET_NAME, "fumarole-heir");
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    #ifdef SYS_close_range
        alone = getppid() == *(pid_t *)node && syscall(SYS_close_range, 0, ~0U, 0) == 0;
    #endif
        fumarole_heir_state = alone ? FUMAROLE_SLEEPS : FUMAROLE_FAILED;
        while (alone)
            pause();
        return 1;
    }

    static int fumarole_appoint_heir(void) {
        static pid_t node;
        sigset_t all, before;
        int heir;

        node = getpid();
        fumarole_heir_state = FUMAROLE_STARTING;
        /* Handlers belong to the node: a Ctrl-C, which all processes of a terminal get, is not for the heir. */
        /* On Linux this is the mask of the calling thread. pthread_sigmask is the same, but needs glibc 2.32. */
        sigfillset(&all);
        sigprocmask(SIG_SETMASK, &all, &before);
        heir = clone(fumarole_heir_lives, fumarole_heir_stack + sizeof fumarole_heir_stack, CLONE_VM, &node);
        sigprocmask(SIG_SETMASK, &before, NULL);
        /* Even errno is one for both: nothing is done here before the heir does nothing any more. */
        for (int tries = 0; heir > 0 && fumarole_heir_state == FUMAROLE_STARTING && tries < 1000; tries++)
            usleep(tries < 100 ? 10 : 1000);
        return heir > 0 && fumarole_heir_state == FUMAROLE_SLEEPS ? heir : 0;
    }
    #else
    static int fumarole_appoint_heir(void) { return 0; }
    #endif
    """
    int fumarole_appoint_heir()


cdef int _node = 0
cdef int _heir = 0


def appoint() -> int:
    """The heir's process id, or 0 where this system does not let processes share memory.

    To be called by the main thread: with the thread that calls it, the heir dies.
    """
    global _node, _heir
    from os import getpid

    if _node != getpid():  # a child of a process that has an heir has none
        _node, _heir = getpid(), fumarole_appoint_heir()
    return _heir
