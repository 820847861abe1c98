"""Which files are done and where their edges go."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gridstride.errors import UsageError
from gridstride.pipeline import batch, images


def targets(inputs: list[Path], output: Path) -> list[str]:
    return [str(task.target.relative_to(output.parent)) for task in batch.plan(inputs, output)]


def empty_files(folder: Path, *names: str) -> list[Path]:
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).touch()
    return [folder / name for name in names]


def test_one_image_into_a_folder(tmp_path: Path) -> None:
    assert targets([tmp_path / "photo.jpg"], tmp_path / "out") == ["out/photo-edges.png"]


def test_one_image_into_a_file(tmp_path: Path) -> None:
    assert targets([tmp_path / "photo.jpg"], tmp_path / "result.PNG") == ["result.PNG"]


def test_folder_named_like_a_file_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "out.png").mkdir()
    assert targets([tmp_path / "photo.jpg"], tmp_path / "out.png") == ["out.png/photo-edges.png"]


def test_folders_give_all_their_images(tmp_path: Path) -> None:
    empty_files(tmp_path, "in/b.png", "in/a.tif", "in/readme.txt")
    assert targets([tmp_path / "in"], tmp_path / "out") == ["out/a-edges.png", "out/b-edges.png"]


def test_edges_beside_their_images_are_not_taken_for_images(tmp_path: Path) -> None:
    empty_files(tmp_path, "in/a.png", "in/a-edges.png")
    assert targets([tmp_path / "in"], tmp_path / "in") == ["in/a-edges.png"]
    assert targets([tmp_path / "in"], tmp_path / "out") == ["out/a-edges-edges.png", "out/a-edges.png"]


def test_same_names_get_files_of_their_own(tmp_path: Path) -> None:
    inputs = [tmp_path / name for name in ("a.png", "a.jpg", "deeper/a.jpg", "A.jpg", "b.png")]
    assert targets(inputs, tmp_path / "out") == [
        "out/a.png-edges.png",
        "out/a.jpg-edges.png",
        "out/a.jpg-2-edges.png",
        "out/A.jpg-3-edges.png",
        "out/b-edges.png",
    ]


def test_other_formats_wrong(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        batch.plan([tmp_path / "a.jpg"], tmp_path / "out.jpg")
    assert str(caught.value) == f"edges are written as PNG: name the output {tmp_path / 'out.png'}, or a folder"


def test_one_file_for_several_images_wrong(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        batch.plan([tmp_path / "a.jpg", tmp_path / "b.jpg"], tmp_path / "out.png")
    assert str(caught.value) == f"{tmp_path / 'out.png'} is one file, but several images were asked for: name a folder"


def test_output_that_is_another_file_wrong(tmp_path: Path) -> None:
    empty_files(tmp_path, "notes.txt")
    with pytest.raises(UsageError, match=r"notes\.txt is a file, but neither a PNG nor a folder that could hold the edges$"):
        batch.plan([tmp_path / "a.jpg"], tmp_path / "notes.txt")


def test_outputs_that_are_inputs_wrong(tmp_path: Path) -> None:
    photo, edges = empty_files(tmp_path, "photo.png", "photo-edges.png")
    (tmp_path / "link").symlink_to(tmp_path)
    for inputs, output in (([photo], photo), ([photo, edges], tmp_path), ([photo], tmp_path / "link" / "photo.png"), (empty_files(tmp_path, "a.mp4"), tmp_path / "a.mp4")):
        with pytest.raises(UsageError, match=r"(photo|photo-edges|a)\.(png|mp4) is an input and would be overwritten: name another output$"):
            batch.plan(inputs, output)


def test_demo_photograph_is_a_real_one() -> None:
    with batch.demo_photograph() as path:
        photograph = images.read_image(path)
        assert path.stat().st_size < 600_000
        assert path.with_suffix(".txt").read_text().count("CC0") == 2
    assert photograph.shape == (900, 1600, 3) and photograph.dtype == np.uint8
    assert photograph.shape[0] * photograph.shape[1] >= 1_000_000
    assert all(np.unique(photograph[..., channel]).size > 200 for channel in range(3))
