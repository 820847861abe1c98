from __future__ import annotations

from pathlib import Path

import pytest

from gridstride.errors import UnsupportedError
from gridstride.frontends import nvrtc


@pytest.fixture(autouse=True)
def fresh_results(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test sees what another or an earlier run kept; the compiler's own headers, which never change, are unpacked once a session."""
    headers = tmp_path_factory.getbasetemp() / "headers"
    place = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("GRIDSTRIDE_CACHE_DIR", str(place))
    monkeypatch.setattr(nvrtc, "cache_directory", lambda: headers)
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    return place


@pytest.fixture
def compiler() -> None:
    """Skips where NVIDIA publishes no compiler."""
    try:
        nvrtc.version()
    except UnsupportedError as error:
        pytest.skip(str(error))
