"""`python -m lun.publish RUN|FILE|FOLDER ORG/NAME`: exported weights and their card to the hub."""
