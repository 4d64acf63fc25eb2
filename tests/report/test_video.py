"""Videos, read back."""

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from headrace.errors import ConfigError, EnvironmentFault, StorageError
from headrace.report.video import require_video, write_video


def frames(count, height=64, width=96):
    """Gray frames, each brighter than the one before."""
    return (np.full((height, width, 3), 10 + 4 * index, np.uint8) for index in range(count))


@pytest.mark.parametrize(("height", "width"), [(64, 96), (63, 97)])
def test_mp4_round_trip(tmp_path, height, width):
    ffmpeg = pytest.importorskip("imageio_ffmpeg")
    path = tmp_path / "video.mp4"
    assert write_video(frames(25, height, width), path, fps=30) == 25
    reader = ffmpeg.read_frames(str(path))
    meta = next(reader)
    assert meta["codec"] == "h264"
    assert meta["pix_fmt"].startswith("yuv420p")  # what browsers play
    assert meta["fps"] == 30
    assert meta["source_size"] == (width + width % 2, height + height % 2)
    means = [np.frombuffer(frame, np.uint8).mean() for frame in reader]
    assert len(means) == 25
    np.testing.assert_allclose(means, [10 + 4 * index for index in range(25)], atol=4)
    assert list(tmp_path.iterdir()) == [path]


def test_a_name_with_a_colon_is_a_file(tmp_path, monkeypatch):
    pytest.importorskip("imageio_ffmpeg")
    monkeypatch.chdir(tmp_path)
    assert write_video(frames(3, 64, 96), Path("12:30.mp4"), fps=30) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["12:30.mp4"]


def test_an_mp4_that_ffmpeg_could_not_finish_is_an_error(tmp_path, monkeypatch):
    ffmpeg = pytest.importorskip("imageio_ffmpeg")
    original = ffmpeg.write_frames

    def cut(path, *arguments, **options):
        writer = original(path, *arguments, **options)

        class Cut:
            def send(self, frame):
                return writer.send(frame)

            def close(self):
                writer.close()
                with Path(path).open("r+b") as file:
                    file.truncate(600)

        return Cut()

    monkeypatch.setattr(ffmpeg, "write_frames", cut)
    with pytest.raises(StorageError, match=r"can't write .*ffmpeg wrote an incomplete file"):
        write_video(frames(25), tmp_path / "video.mp4", fps=30)
    assert list(tmp_path.iterdir()) == []


def test_gif_round_trip(tmp_path):
    from PIL import Image

    path = tmp_path / "video.gif"
    assert write_video(frames(7), path, fps=25) == 7
    with Image.open(path) as image:
        assert image.n_frames == 7
        assert image.size == (96, 64)
        assert image.info["duration"] == 40


def test_no_frames(tmp_path):
    with pytest.raises(EnvironmentFault, match="no frame"):
        write_video([], tmp_path / "video.gif", fps=30)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("bad", [np.zeros((64, 96), np.uint8), np.zeros((64, 96, 3)), np.zeros((32, 96, 3), np.uint8)])
def test_frames_that_do_not_fit_are_named_and_no_file_is_left(tmp_path, bad):
    with pytest.raises(EnvironmentFault, match=r"frame 1 is .*a video needs uint8 \[H, W, 3\]"):
        write_video([np.zeros((64, 96, 3), np.uint8), bad], tmp_path / "video.gif", fps=30)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_suffix_or_directory_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"must end in \.mp4 or \.gif"):
        require_video(tmp_path / "video.avi")
    with pytest.raises(ConfigError, match="a directory that exists"):
        require_video(tmp_path / "nowhere" / "video.gif")


def test_the_extra_is_named_where_it_is_missing(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(ConfigError, match=r'pip install "headrace\[video\]"'):
        require_video(tmp_path / "video.mp4")
    require_video(tmp_path / "video.gif")


def test_a_package_without_its_program_is_found_before_there_are_frames(tmp_path, monkeypatch):
    def find() -> str:
        raise RuntimeError("No ffmpeg exe could be found")

    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", SimpleNamespace(get_ffmpeg_exe=find))
    with pytest.raises(ConfigError, match="needs the program ffmpeg: No ffmpeg exe could be found"):
        require_video(tmp_path / "video.mp4")


@pytest.mark.parametrize("suffix", [".gif", ".mp4"])
def test_a_path_that_cannot_be_written_is_found_before_there_are_frames(tmp_path, suffix):
    if suffix == ".mp4":
        pytest.importorskip("imageio_ffmpeg")
    with pytest.raises(StorageError, match=rf"^can't write /proc/video{suffix}: [^\n]*$"):
        require_video(Path(f"/proc/video{suffix}"))
    (tmp_path / f"taken{suffix}").mkdir()
    with pytest.raises(ConfigError, match="it must be a file"):
        require_video(tmp_path / f"taken{suffix}")
    require_video(tmp_path / f"free{suffix}")
    assert [path.name for path in tmp_path.iterdir()] == [f"taken{suffix}"]


@pytest.mark.parametrize("fps", [30, 60, 67, 125])
def test_a_gif_lasts_as_long_as_the_episode_and_browsers_can_show_it(fps, tmp_path):
    """Hundredths of a second, of which browsers show none below two; some frames are left out of fast ones."""
    from PIL import Image

    path = tmp_path / "video.gif"
    written = write_video(frames(61), path, fps)
    with Image.open(path) as image:
        assert image.n_frames == written
        durations = []
        for index in range(image.n_frames):
            image.seek(index)
            durations.append(image.info["duration"])
    assert min(durations) >= 20
    assert sum(durations) == pytest.approx(1000 * 61 / fps, abs=30)


def test_a_picture_that_stands_still_for_long_is_shown_for_as_long_as_a_gif_can(tmp_path):
    from PIL import Image

    path = tmp_path / "video.gif"
    write_video([*[frame for frame in frames(1) for _ in range(800)], *frames(2)], path, fps=1)
    with Image.open(path) as image:
        assert image.info["duration"] == 655_350
        assert image.n_frames == 2
        image.seek(1)
        assert image.info["duration"] == 1_000
