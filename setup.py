"""What pyproject.toml cannot say: the configs are a package of the wheel, `lun.configs`, and the user's drawer is not."""

from setuptools import find_namespace_packages, setup

setup(
    packages=[*find_namespace_packages(include=["ldm*", "lun*"], exclude=["lun.local*"]), "lun.configs"],
    package_dir={"lun.configs": "configs"},
)
