"""python -m scripts.site FOLDER"""

import sys
from pathlib import Path

from scripts.site.stage import stage

pages = stage(Path(sys.argv[1]))
print(f"{len(pages)} pages in {sys.argv[1]}")
