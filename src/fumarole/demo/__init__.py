"""The simulated volcano sensors behind `fumarole demo` and `fumarole pipeline demo`."""
