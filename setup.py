"""Builds what is not kept as source. All else about the package is in pyproject.toml.

First, the messages of the KubeMQ door: protocols/kubemq_pb2.py (and its types, .pyi) from protocols/kubemq.proto. An
sdist has them already.

Then, the compiled fast path. Two kinds of module are compiled, all into the package fumarole.fastpath:

- each fastpath/*.pyx, under its own name;
- core/index.py, plain Python, a second time under the name fumarole.fastpath.index. Its C types stand in
  fastpath/index.pxd, which Cython finds by that name, and nowhere else: annotations are left to the type checker.

Generated C goes to build/cython. Where there is no C compiler the package installs without these modules.
BUILD_FUMAROLE=compiled makes that an error, BUILD_FUMAROLE=pure leaves them out; scripts/dist makes a wheel of each.
FUMAROLE_COMPILER_FLAGS takes the place of -O3 -g0: scripts/sanitize.
"""

import os
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

SOURCES = Path("src")
MESSAGES = SOURCES / "fumarole/protocols/kubemq.proto"
MESSAGES_MADE = SOURCES / "fumarole/protocols/kubemq_pb2.py"
IN_SDIST = Path("PKG-INFO").exists()
FASTPATH = Path("src/fumarole/fastpath")
GENERATED = Path("build/cython")
INDEX, INDEX_TYPES = Path("src/fumarole/core/index.py"), FASTPATH / "index.pxd"
KIND = os.environ.get("BUILD_FUMAROLE", "")
# Without the tables for debuggers, which Python asks for by default: they are five sixths of a module.
COMPILER_FLAGS = os.environ.get("FUMAROLE_COMPILER_FLAGS", "-O3 -g0").split()


def make_messages() -> None:
    if IN_SDIST:
        return
    try:
        from grpc_tools import protoc
    except ImportError:
        if MESSAGES_MADE.exists() and MESSAGES_MADE.stat().st_mtime >= MESSAGES.stat().st_mtime:
            return
        raise SystemExit(
            f"fumarole: {MESSAGES} needs protoc to be made into Python: pip install grpcio-tools"
        ) from None
    arguments = [f"-I{SOURCES}", f"--python_out={SOURCES}", f"--pyi_out={SOURCES}", str(MESSAGES)]
    if protoc.main(["protoc", *arguments]):
        raise SystemExit(f"fumarole: protoc does not accept {MESSAGES}; its reasons stand above.")


def extension(name: str, source: Path) -> Extension:
    return Extension(f"fumarole.fastpath.{name}", [str(source)], extra_compile_args=COMPILER_FLAGS)


def compiled(extensions: list[Extension], *, force: bool = False, **directives: object) -> list[Extension]:
    from Cython.Build import cythonize
    from Cython.Compiler.Errors import CompileError

    try:
        return cythonize(
            extensions,
            include_path=["src"],
            build_dir=str(GENERATED),
            compiler_directives={"language_level": 3, **directives},
            force=force,
        )
    except CompileError as error:
        raise SystemExit(f"fumarole: Cython does not accept {error}; its reasons stand above.") from None


def fastpath_modules() -> list[Extension]:
    if KIND == "pure":
        return []
    modules = compiled([extension(source.stem, source) for source in sorted(FASTPATH.glob("*.pyx"))])
    if INDEX.exists() and INDEX_TYPES.exists():
        # Cython notices by itself that index.py has changed, but not that its types have: they are in another folder.
        in_c = GENERATED / INDEX.with_suffix(".c")
        types_changed = in_c.exists() and in_c.stat().st_mtime < INDEX_TYPES.stat().st_mtime
        modules += compiled([extension("index", INDEX)], force=types_changed, annotation_typing=False)
    for module in modules:
        module.optional = KIND != "compiled"  # set here because cythonize makes new extensions without it
    # The largest first: compiled side by side, none is then waited for alone at the end.
    return sorted(modules, key=lambda module: Path(module.sources[0]).stat().st_size, reverse=True)


class BuildPackage(build_py):
    """Has the messages made before they are looked for."""

    def run(self) -> None:
        make_messages()
        super().run()


class BuildSource(sdist):
    """The same for an sdist, which carries them."""

    def run(self) -> None:
        make_messages()
        super().run()


class BuildFastpath(build_ext):
    """Says so where a module could not be compiled, and leaves no older form of it behind."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()

    def run(self) -> None:
        make_messages()
        if self.inplace:
            for old in FASTPATH.glob("*.so"):
                old.unlink()
        super().run()
        missing = [module.name for module in self.extensions if not Path(self.get_ext_fullpath(module.name)).exists()]
        if missing:
            print(f"fumarole: not compiled: {', '.join(missing)}. Plain Python takes its place: the same, but slower.")
        elif self.extensions:
            print("fumarole: the fast path is compiled.")


setup(
    ext_modules=fastpath_modules(),
    cmdclass={"build_ext": BuildFastpath, "build_py": BuildPackage, "sdist": BuildSource},
)
