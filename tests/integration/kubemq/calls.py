"""KubeMQ's service called as plainly as gRPC allows, one channel for all calls: for what no SDK would do."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

import grpc

from fumarole.protocols.kubemq_pb2 import Empty, Event, EventReceive, PingResult, Request, Response, Result, Subscribe

SECONDS = 10.0
SERVICE = "/kubemq.kubemq/"


class Calls:
    """One client. Every call has a deadline, so that nothing hangs."""

    def __init__(self, port: int, token: str = "", options: dict[str, int] | None = None) -> None:
        own = [("grpc.use_local_subchannel_pool", 1), *(options or {}).items()]
        self.channel: Any = grpc.insecure_channel(f"127.0.0.1:{port}", own)
        self._metadata = (("authorization", token),) if token else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.channel.close()

    def unary(self, method: str, message: Any, answer: Any = None) -> Any:
        """One message there, one back. Bytes go as they are."""
        data = message if isinstance(message, bytes) else message.SerializeToString()
        call = self.channel.unary_unary(SERVICE + method)
        received = call(data, timeout=SECONDS, metadata=self._metadata)
        return received if answer is None else answer.FromString(received)

    def ping(self) -> PingResult:
        result: PingResult = self.unary("Ping", Empty(), PingResult)
        return result

    def send(self, channel: str, body: bytes = b"x", **fields: Any) -> Result:
        event = Event(**{"ClientID": "me", "Channel": channel, "Body": body, **fields})
        result: Result = self.unary("SendEvent", event, Result)
        return result

    def ask(self, kind: Any, channel: str, timeout: int = 5000, **fields: Any) -> Response:
        request = Request(RequestTypeData=kind, ClientID="me", Channel=channel, Timeout=timeout)
        request.MergeFrom(Request(**{"Body": b"?", **fields}))
        response: Response = self.unary("SendRequest", request, Response)
        return response

    def answer(self, request: Request, body: bytes = b"!") -> None:
        response = Response(ClientID="you", RequestID=request.RequestID, ReplyChannel=request.ReplyChannel)
        response.Executed, response.Body = True, body
        self.unary("SendResponse", response, Empty)

    def stream(self) -> EventsStream:
        return EventsStream(self.channel, self._metadata)

    def receiver(self, channel: str, group: str = "", confirmed: bool = True) -> Receiver:
        subscribe = Subscribe(SubscribeTypeData=Subscribe.Events, ClientID="me", Channel=channel, Group=group)
        return self.subscribe("SubscribeToEvents", subscribe, EventReceive, confirmed)

    def responder(self, kind: Any, channel: str, group: str = "") -> Receiver:
        subscribe = Subscribe(SubscribeTypeData=kind, ClientID="you", Channel=channel, Group=group)
        return self.subscribe("SubscribeToRequests", subscribe, Request, True)

    def subscribe(self, method: str, message: Any, received: Any, confirmed: bool) -> Receiver:
        call = self.channel.unary_stream(SERVICE + method, response_deserializer=received.FromString)
        data = message if isinstance(message, bytes) else message.SerializeToString()
        receiver = Receiver(call(data, timeout=6 * SECONDS, metadata=self._metadata))
        if confirmed:
            receiver.await_confirmation()
        return receiver


class Receiver:
    """A subscription: nothing is read from it but what is asked for."""

    def __init__(self, call: Any) -> None:
        self._call = call

    def await_confirmation(self) -> None:
        """Blocks until the server has sent its metadata, which it does when the subscription is in force."""
        self._call.initial_metadata()

    def next(self) -> Any:
        return next(self._call)

    def take(self, count: int) -> list[Any]:
        return [next(self._call) for _ in range(count)]

    def cancel(self) -> None:
        self._call.cancel()

    def fault(self) -> tuple[str, str]:
        """The end of it: the status, and what it says."""
        try:
            next(self._call)
        except grpc.RpcError as error:
            return fault_of(error)
        except StopIteration:
            return "OK", ""
        raise AssertionError("a message came")


class EventsStream:
    """A stream of events, and the results that come back."""

    def __init__(self, channel: Any, metadata: Any) -> None:
        self._queue: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        call = channel.stream_stream(SERVICE + "SendEventsStream", response_deserializer=Result.FromString)
        self._results: Any = call(self._messages(), timeout=6 * SECONDS, metadata=metadata)

    def _messages(self) -> Iterator[bytes]:
        while (data := self._queue.get()) is not None:
            yield data

    def send(self, channel: str, body: bytes = b"x", **fields: Any) -> None:
        event = Event(**{"ClientID": "me", "Channel": channel, "Body": body, **fields})
        self.send_bytes(event.SerializeToString())

    def send_bytes(self, data: bytes) -> None:
        self._queue.put(data)

    def result(self) -> Result:
        result: Result = next(self._results)
        return result

    def end(self) -> list[Result]:
        """No more events: the results that are left, once the server has ended too. Raises grpc.RpcError."""
        self._queue.put(None)
        return list(self._results)

    def cancel(self) -> None:
        self._queue.put(None)
        self._results.cancel()


def fault_of(error: grpc.RpcError) -> tuple[str, str]:
    assert isinstance(error, grpc.Call)
    return error.code().name, error.details() or ""
