"""The commands `fumarole pipeline …`."""
