"""What pyproject.toml cannot say: configs are `lun.configs` in the wheel, pages `lun.docs`; no drawer of a user is."""

from setuptools import find_namespace_packages, setup

setup(
    packages=[*find_namespace_packages(include=["ldm*", "lun*"], exclude=["lun.local*"]), "lun.configs", "lun.docs"],
    package_dir={"lun.configs": "configs", "lun.docs": "docs"},
)
