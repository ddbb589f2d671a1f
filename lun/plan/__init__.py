"""What a run is going to do and to need, shown before it does anything."""
