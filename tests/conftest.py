from pathlib import Path

import pytest
from hypothesis import settings

from fumarole.fastpath.engine import PLAIN, Engine, compiled

# The same examples in every run. Others: pytest --hypothesis-profile=default
settings.register_profile("ci", derandomize=True, deadline=None, database=None, print_blob=True)
settings.load_profile("ci")

INTEGRATION = Path(__file__).parent / "integration"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Quick tests first, those with real servers last."""
    items.sort(key=lambda item: item.path.is_relative_to(INTEGRATION))


@pytest.fixture(params=["plain", "compiled"])
def engine(request: pytest.FixtureRequest) -> Engine:
    """Each form of the hot path in turn."""
    if request.param == "plain":
        return PLAIN
    built = compiled()
    assert built is not None, "the compiled fast path is not built: `make setup` says why"
    return built
