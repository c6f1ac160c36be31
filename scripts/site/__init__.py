"""The documentation as a site: `python -m scripts.site FOLDER` writes the Markdown that the site is built from.

The pages of docs/ are taken as they are. Three are completed by what the program knows of itself: the options of every
command, the variable, flag and kind of every setting, and the Python API.
"""
