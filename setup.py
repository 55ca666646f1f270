"""What pyproject.toml cannot say: compile the kernels where there is a C++ compiler, and install without them else."""

import importlib.util
import sys
from pathlib import Path

from setuptools import Command, Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build import build

NATIVE = Path("src/structattn/kernels/native")


def _builder():
    """``compile_library.py`` of the package by its path: the package itself needs torch, which may not be here."""
    path = Path(__file__).parent / NATIVE / "compile_library.py"
    spec = importlib.util.spec_from_file_location("structattn_native_build", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class BuildNative(Command):
    """Compile into the build folder, or beside the sources for an editable installation."""

    description = "compile the kernels, if there is a C++ compiler"
    user_options = []
    editable_mode = False

    def initialize_options(self):
        self.build_lib = None
        self.outputs = []

    def finalize_options(self):
        self.set_undefined_options("build_py", ("build_lib", "build_lib"))

    def run(self):
        builder = _builder()
        folder = Path(__file__).parent / NATIVE
        if not self.editable_mode:
            folder = Path(self.build_lib) / NATIVE.relative_to("src")
        try:
            self.outputs = [str(path) for path in builder.build(folder)]
        except builder.BuildError as reason:
            self.warn(f"structattn is installed without compiled kernels: {reason}")

    def get_source_files(self):
        return [str(path) for path in sorted((NATIVE / "source").iterdir())]

    def get_outputs(self):
        return self.outputs

    def get_output_mapping(self):
        return {}


class Package(Distribution):
    """A wheel with compiled kernels is for one kind of machine."""

    def has_ext_modules(self):
        builder = _builder()
        try:
            return bool(builder.compiler())
        except builder.BuildError:
            return False


class Wheel(bdist_wheel):
    """Nothing in the library depends on the version of Python."""

    def get_tag(self):
        tag = super().get_tag()
        return tag if self.root_is_pure else ("py3", "none", tag[2])


class Build(build):
    """The usual steps and the kernels."""

    sub_commands = [*build.sub_commands, ("build_native", None)]


setup(distclass=Package, cmdclass={"build": Build, "build_native": BuildNative, "bdist_wheel": Wheel})
