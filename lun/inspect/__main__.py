"""`python -m lun.inspect DIR`."""

from lun.launch.entry import enter

if __name__ == "__main__":
    enter("lun.inspect.command")
