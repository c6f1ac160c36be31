"""TLS that says why it refuses a client.

OpenSSL writes an alert when a handshake fails: the client's certificate is missing, say, or unknown. The transports of
asyncio and uvloop close the connection then, and the alert is never sent. The client sees a connection that was lost,
and comes again. Here a failed handshake waits for more bytes, and before a transport waits it sends what is there:

    handshake fails      do_handshake raises "want read"    the alert leaves
    the client hangs up  the transport reads the end        the connection ends
    it says more         do_handshake raises the failure    the connection ends
    it does nothing      the deadline of the handshake      the connection ends
"""

import ssl


class AlertingObject(ssl.SSLObject):
    """For `SSLContext.sslobject_class`."""

    _failure: ssl.SSLError | None = None

    def do_handshake(self) -> None:
        if self._failure is not None:
            raise self._failure
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            self._failure = error
            raise ssl.SSLWantReadError("the alert leaves first") from error
