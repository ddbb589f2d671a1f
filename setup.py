"""What pyproject.toml cannot say: the configs go into the wheel as `lun.configs` and the pages as `lun.docs`, the user's own drawer does not."""

from setuptools import find_namespace_packages, setup

setup(
    packages=[*find_namespace_packages(include=["ldm*", "lun*"], exclude=["lun.local*"]), "lun.configs", "lun.docs"],
    package_dir={"lun.configs": "configs", "lun.docs": "docs"},
)
