"""Writes frames to a video file: MP4 (H.264) for browsers, or GIF."""

import contextlib
import itertools
import math
import os
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError, EnvironmentFault, StorageError

__all__ = ["require_video", "write_video"]

_SUFFIXES = (".mp4", ".gif")
_MOST_GIF_FPS = 50.0
"""Browsers slow faster ones down; of these some frames are left out."""
_MOST_GIF_MS = 655_350
"""The longest time of one picture of a GIF."""
Frame = NDArray[np.uint8]


def require_video(path: Path) -> None:
    """Raises ConfigError if `path` can't be written as a video: wrong suffix or directory, or a missing extra.

    Raises StorageError if the system would refuse to write it.
    """
    if path.suffix not in _SUFFIXES:
        raise ConfigError(f"video is {path}; it must end in .mp4 or .gif")
    if not path.parent.is_dir():
        raise ConfigError(f"video is {path}; it must be in a directory that exists")
    if path.suffix == ".mp4":
        _ffmpeg()
    if path.is_dir():
        raise ConfigError(f"video is {path}; it must be a file, and that is a directory")
    with _finished(path, keep=False) as draft:
        draft.touch()


def write_video(frames: Iterable[Frame], path: Path, fps: float) -> int:
    """Writes frames [H, W, 3] of one size to `path`, .mp4 or .gif, one by one; returns how many it wrote.

    The file appears when it is complete. Raises ConfigError like require_video(), EnvironmentFault without a frame.
    """
    require_video(path)
    checked = _Checked(frames)
    first = next(checked, None)
    if first is None:
        raise EnvironmentFault("the environment rendered no frame; a video needs at least one")
    write = _write_mp4 if path.suffix == ".mp4" else _write_gif
    with _finished(path) as draft:
        return write(itertools.chain([first], checked), draft, fps)


class _Checked(Iterator[Frame]):
    """Requires one shape for all frames."""

    def __init__(self, frames: Iterable[Frame]) -> None:
        self._frames = iter(frames)
        self._shape: tuple[int, ...] | None = None
        self._count = 0

    def __next__(self) -> Frame:
        frame = np.asarray(next(self._frames))
        self._shape = self._shape or frame.shape
        if frame.dtype != np.uint8 or frame.ndim != 3 or frame.shape[2] != 3 or frame.shape != self._shape:
            raise EnvironmentFault(
                f"frame {self._count} is {frame.dtype} {list(frame.shape)}; a video needs uint8 [H, W, 3] of one size"
            )
        self._count += 1
        return frame


def _write_mp4(frames: Iterator[Frame], path: Path, fps: float) -> int:
    first = next(frames)
    height, width = first.shape[:2]
    odd = ((0, height % 2), (0, width % 2), (0, 0))  # H.264 with 4:2:0 color needs even sides
    writer = _ffmpeg().write_frames(
        str(path),
        (width + width % 2, height + height % 2),
        fps=fps,
        codec="libx264",
        pix_fmt_out="yuv420p",
        macro_block_size=2,
        quality=None,
        ffmpeg_log_level="quiet",  # an error becomes one line of ours
        output_params=["-crf", "23", "-movflags", "+faststart", "-threads", "1"],
    )
    writer.send(None)
    sent = 0
    try:
        for frame in itertools.chain([first], frames):
            writer.send(np.ascontiguousarray(np.pad(frame, odd, mode="edge")))
            sent += 1
    finally:
        writer.close()
    if _frames_of(path) != sent:  # the program's exit status is not known here
        raise OSError("ffmpeg wrote an incomplete file; enough space on the disk is required")
    return sent


def _frames_of(path: Path) -> int:
    """The number of frames of an .mp4; 0 if it can't be read."""
    try:
        frames: int = _ffmpeg().count_frames_and_secs(str(path))[0]
    except RuntimeError:
        return 0
    return frames


def _write_gif(frames: Iterator[Frame], path: Path, fps: float) -> int:
    from PIL import Image

    step = max(1, math.ceil(fps / _MOST_GIF_FPS))
    number = 0

    def images() -> Iterator[Any]:
        nonlocal number
        end, still, last = 0, 0, None
        for number, frame in enumerate(itertools.islice(frames, 0, None, step), start=1):
            image = Image.fromarray(frame)
            begin, end = end, round(100 * step * number / fps)  # a GIF counts hundredths of a second
            still = still if last is not None and np.array_equal(frame, last) else 0
            image.info["duration"] = min(10 * (end - begin), _MOST_GIF_MS - still)  # Pillow adds those of equal frames
            still, last = still + image.info["duration"], frame
            yield image

    made = images()
    next(made).save(path, save_all=True, append_images=made, loop=0)
    return number


def _ffmpeg() -> Any:
    try:
        module = import_module("imageio_ffmpeg")
    except ImportError:
        raise ConfigError('writing an .mp4 needs an extra: pip install "headrace[video]" (or name a .gif)') from None
    try:
        module.get_ffmpeg_exe()
    except RuntimeError as error:  # a package without the program, and none on the PATH
        raise ConfigError(f"writing an .mp4 needs the program ffmpeg: {error} (or name a .gif)") from None
    return module


@contextlib.contextmanager
def _finished(path: Path, *, keep: bool = True) -> Iterator[Path]:
    """A temporary path next to `path`, renamed to `path` at the end; removed after an error or without `keep`."""
    draft = path.absolute().with_name(f".{path.stem}.tmp{path.suffix}")  # ffmpeg reads "12:" in a name as a protocol
    try:
        try:
            yield draft
            if keep:
                os.replace(draft, path)
        except OSError as error:
            reason = error.strerror or str(error).partition("\n")[0]
            if isinstance(error, BrokenPipeError):  # the encoder ends early only if its file can't grow
                reason = "its encoder stopped; is the disk full?"
            raise StorageError(f"can't write {path}: {reason}") from error
    finally:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
