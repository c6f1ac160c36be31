"""Errors of the pipeline that its user or its data cause. The text is for that user."""

from fumarole.core.errors import FumaroleError


class PipelineError(FumaroleError):
    """Whatever the pipeline raises on purpose."""


class ArchiveError(PipelineError):
    """An archive that is not there, is not one, or is of a version that is not known here."""


class RowError(PipelineError, ValueError):
    """A row that no message can be made of."""


class TimeError(PipelineError):
    """What was given as a time, a length of time or a range of it is none."""
