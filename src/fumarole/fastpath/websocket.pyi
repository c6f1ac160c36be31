from fumarole.protocols.stream import Data

class Frames:
    controls: list[tuple[int, bytes]]
    def take(self, data: Data) -> bytes: ...
