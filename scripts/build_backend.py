"""The build backend: setuptools', and protoc in a checkout, where the messages of the KubeMQ door are not made yet.

An sdist has them, so building from one needs setuptools and Cython alone.
"""

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path

from setuptools import build_meta
from setuptools.build_meta import (
    build_editable,
    build_sdist,
    build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

Settings = Mapping[str, str | list[str] | None] | None


def _and_protoc(required: Callable[[Settings], list[str]]) -> Callable[[Settings], list[str]]:
    def requirements(config_settings: Settings = None) -> list[str]:
        return [*required(config_settings), *([] if Path("PKG-INFO").exists() else [_protoc()])]

    return requirements


def _protoc() -> str:
    """The requirement as the developers' group has it."""
    group = tomllib.loads(Path("pyproject.toml").read_text())["dependency-groups"]["dev"]
    return next(requirement for requirement in group if requirement.startswith("grpcio-tools"))


get_requires_for_build_wheel = _and_protoc(build_meta.get_requires_for_build_wheel)
get_requires_for_build_sdist = _and_protoc(build_meta.get_requires_for_build_sdist)
get_requires_for_build_editable = _and_protoc(build_meta.get_requires_for_build_editable)
