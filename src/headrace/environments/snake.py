"""Snake on a walled board (Ong et al. 2015), with observations of three kinds."""

from typing import Any, Literal, get_args

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from headrace.errors import require
from headrace.types import Array

__all__ = ["Snake", "SnakeObservation", "register"]

SnakeObservation = Literal["view", "grid", "frames"]

_MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))  # north, east, south, west: rows down, columns to the right
_ACTIONS = (0, 2, 1, 3)  # indices of these for actions 0 to 3
_FOREVER = 2**30  # moves for which a wall stays
_APPLE, _SNAKE = 255, 200  # Ong's gray levels
_STACK = 4
_CELL_PIXELS = 16
_COLORS = {
    "free": np.array((24, 26, 30)),
    "tail": np.array((22, 84, 48)),
    "neck": np.array((78, 201, 128)),
    "head": np.array((214, 255, 224)),
    "apple": np.array((232, 72, 60)),
}


class Snake(gymnasium.Env[Array, np.int64]):
    """A snake of length 2 in the middle of `size` x `size` cells, heading east, with walls around the board.

    Actions: 0 north, 1 south, 2 east, 3 west; an action against the heading is ignored. An apple, in a random free
    cell, is worth +1 and makes the snake one cell longer. Running into a wall or into itself is worth -1 and ends the
    episode; the board then stays as it was. A full board ends the episode too. The cell that the tail leaves is free to
    enter. An episode is truncated after `patience` moves without an apple, by default size^2: on a board of even size,
    a fixed circle through all cells reaches each apple within that many moves. `info["apples"]` counts the apples.

    Observations, uint8:
    - "view" [3, 2 size - 1, 2 size - 1], centered on the head. Plane 0: 255 where a cell is free. Plane 1: the number
      of moves for which a cell stays occupied, in steps of 255 // size^2 (at least 1; at most 255 in total), with
      the maximum for walls. Plane 2: 255 at the apple.
    - "grid" [4, size, size], the same planes of the board without centering, and 255 at the head.
    - "frames" [pixels, pixels], as in Ong et al.: a gray image, apple 255 and snake 200, meant for stacks of 4.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array", "ansi"], "render_fps": 10}  # noqa: RUF012 (Gymnasium's)

    def __init__(
        self,
        render_mode: str | None = None,
        size: int = 10,
        observation: SnakeObservation = "view",
        pixels: int = 16,
        patience: int | None = None,
    ) -> None:
        require("size", size, size >= 3, "3 or more")
        fits = observation != "frames" or pixels >= size
        require("pixels", pixels, fits, f"at least the size of the board, {size}")
        require("patience", patience, patience is None or patience > 0, "above 0")
        known = get_args(SnakeObservation)
        require("observation", observation, observation in known, "view, grid or frames")
        self.render_mode = render_mode
        self.action_space = spaces.Discrete(4)
        side = 2 * size - 1
        shapes = {"view": (3, side, side), "grid": (4, size, size), "frames": (pixels, pixels)}
        self.observation_space = spaces.Box(0, 255, shapes[observation], np.uint8)
        if observation == "frames":
            self.metadata = {**self.metadata, "stack": _STACK}
        self._observe = {"view": self._view, "grid": self._grid, "frames": self._frame}[observation]
        self._size = size
        self._patience = patience or size * size
        self._step_value = max(1, 255 // (size * size))
        self._most = 255 // self._step_value
        # The move until which each cell is occupied. The walls around the board are thick enough for every view to lie
        # inside. A move that eats does not count: it frees no cell of the snake.
        self._walled = np.full((3 * size - 2, 3 * size - 2), _FOREVER, np.int32)
        self._board = self._walled[size - 1 : 2 * size - 1, size - 1 : 2 * size - 1]
        self._walled_apples = np.zeros_like(self._walled, np.uint8)
        self._apples = self._walled_apples[size - 1 : 2 * size - 1, size - 1 : 2 * size - 1]
        rows = np.arange(pixels) * size // pixels
        self._pixels = rows[:, None] * size + rows  # the cell that each pixel shows, counted row by row

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """Puts the snake in the middle and an apple in a random free cell."""
        super().reset(seed=seed, options=options)
        middle = self._size // 2
        self._clock = 0
        self._length = 2
        self._heading = 1
        self._row = self._column = middle
        self._board[:] = 0
        self._board[middle, middle - 1 : middle + 1] = 1, 2
        self._apples[:] = 0
        self._place_apple()
        self._hunger = 0
        return self._observe(), self._info()

    def step(self, action: np.int64) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Moves the snake by one cell."""
        heading = _ACTIONS[action]
        if heading ^ self._heading != 2:  # opposite headings differ by two
            self._heading = heading
        down, right = _MOVES[self._heading]
        row, column = self._row + down, self._column + right
        if (row, column) == self._apple:
            return self._eat(row, column)
        edge = self._size - 1
        if self._walled[edge + row, edge + column] > self._clock + 1:
            return self._observe(), -1.0, True, False, self._info()
        self._clock += 1
        self._enter(row, column)
        self._hunger += 1
        return self._observe(), 0.0, False, self._hunger >= self._patience, self._info()

    def render(self) -> Any:
        """The board: uint8 [16 size, 16 size, 3] for rgb_array; text with one character per cell for ansi."""
        if self.render_mode == "ansi":
            return self._text()
        return self._picture() if self.render_mode == "rgb_array" else None

    def _eat(self, row: int, column: int) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        self._length += 1
        self._enter(row, column)
        self._apples[:] = 0
        self._hunger = 0
        won = self._length == self._size**2
        if not won:
            self._place_apple()
        return self._observe(), 1.0, won, False, self._info()

    def _enter(self, row: int, column: int) -> None:
        self._row, self._column = row, column
        self._board[row, column] = self._clock + self._length

    def _place_apple(self) -> None:
        free = np.flatnonzero(self._board <= self._clock)
        row, column = divmod(int(free[self.np_random.integers(len(free))]), self._size)
        self._apple = row, column
        self._apples[row, column] = _APPLE

    def _info(self) -> dict[str, Any]:
        return {"apples": self._length - 2}

    def _view(self) -> Array:
        row, column, side = self._row, self._column, 2 * self._size - 1
        around = slice(row, row + side), slice(column, column + side)
        view = np.empty((3, side, side), np.uint8)
        self._draw_taken(self._walled[around], view)
        view[2] = self._walled_apples[around]
        return view

    def _grid(self) -> Array:
        grid = np.zeros((4, self._size, self._size), np.uint8)
        self._draw_taken(self._board, grid)
        grid[2] = self._apples
        grid[3, self._row, self._column] = 255
        return grid

    def _draw_taken(self, until: NDArray[np.int32], planes: Array) -> None:
        """Fills planes[0] (free cells) and planes[1] (how long the other cells stay occupied)."""
        left = until - self._clock
        np.multiply(left <= 0, np.uint8(255), out=planes[0])
        np.maximum(left, 0, out=left)
        np.minimum(left, self._most, out=left)
        np.multiply(left, self._step_value, out=planes[1], casting="unsafe")

    def _frame(self) -> Array:
        gray = np.where(self._board > self._clock, np.uint8(_SNAKE), self._apples)
        frame: Array = gray.take(self._pixels)
        return frame

    def _picture(self) -> Array:
        left = self._board - self._clock
        share = (np.clip(left, 0, self._length) / self._length)[..., None]  # from tail to head
        image: Array = _COLORS["tail"] + share * (_COLORS["neck"] - _COLORS["tail"])
        image[left <= 0] = _COLORS["free"]
        image[self._apples > 0] = _COLORS["apple"]
        image[self._row, self._column] = _COLORS["head"]
        image = image.astype(np.uint8)
        return image.repeat(_CELL_PIXELS, axis=0).repeat(_CELL_PIXELS, axis=1)

    def _text(self) -> str:
        cells = np.where(self._board > self._clock, "o", np.where(self._apples > 0, "*", "."))
        cells[self._row, self._column] = "@"
        wall = "#" * (self._size + 2)
        return "\n".join([wall, *(f"#{''.join(row)}#" for row in cells), wall])


def register() -> None:
    """Registers the 10 x 10 boards with Gymnasium: headrace/Snake-v0 (view), SnakeGrid-v0 and SnakeFrames-v0."""
    names: dict[str, SnakeObservation] = {"Snake": "view", "SnakeGrid": "grid", "SnakeFrames": "frames"}
    for name, observation in names.items():
        gymnasium.register(
            f"headrace/{name}-v0", f"{Snake.__module__}:{Snake.__name__}", kwargs={"observation": observation}
        )
