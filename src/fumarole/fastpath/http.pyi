from fumarole.core.limits import Limits
from fumarole.exchange.exchange import Exchange
from fumarole.exchange.plans import Plans
from fumarole.protocols.stream import Data
from fumarole.sessions.http.session import HttpSession
from fumarole.sessions.reader import Reader

class HttpReader(Reader):
    def __init__(self, session: HttpSession) -> None: ...
    def receive_data(self, data: Data) -> None: ...
    @property
    def unfinished(self) -> bool: ...
    def go_on(self) -> None: ...

class LineReader:
    lines: int
    delivered: int
    spent: int
    def __init__(self, exchange: Exchange, plans: Plans, limits: Limits) -> None: ...
    def take(self, data: bytes, at: int) -> int: ...
