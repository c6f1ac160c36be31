# core/index.py, compiled.
from fumarole.core.index import Globs as Globs
from fumarole.core.index import Index as Index
from fumarole.core.index import Level as Level
