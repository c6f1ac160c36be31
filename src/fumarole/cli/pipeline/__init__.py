"""The commands `fumarole pipeline …`, one file each."""
