"""Makes the pictures of docs/pictures with a broker, stations and a browser: `make pictures`."""

import tempfile
from pathlib import Path

from tests.integration.console.browser import ROOT, copy_scripts, run_node
from tests.integration.http.webs import WebBroker

PICTURES = ROOT / "docs" / "pictures"


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    copy_scripts()
    with tempfile.TemporaryDirectory() as folder:
        broker = WebBroker(Path(folder))
        try:
            run_node("pictures.mjs", broker.web, str(PICTURES), str(broker.port))
        finally:
            broker.stop()
    for each in sorted(PICTURES.glob("*.png")):
        print(f"  {each.relative_to(ROOT)}, {each.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
