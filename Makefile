# Short names for the scripts, which do the work and explain themselves with --help.
.PHONY: setup test lint types unit integration demo clean

setup:
	bash scripts/setup.sh --test

test:
	bash scripts/test.sh

lint types unit integration:
	bash scripts/test.sh $@

demo:
	bash scripts/demo.sh

clean:
	rm -rf build dist lun.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find ldm lun scripts tests -name __pycache__ -type d -exec rm -rf {} +
