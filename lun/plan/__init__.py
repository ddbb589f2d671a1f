"""What a run is going to do and to need, told before it does anything."""
