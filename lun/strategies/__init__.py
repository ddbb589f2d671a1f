"""How a run is spread over devices and in which precision it computes: Lightning's strategies, made to fit."""
