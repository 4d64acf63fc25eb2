"""Snake's rules, and each kind of its observations."""

import random

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from headrace.environments import make
from headrace.environments.snake import Snake
from headrace.errors import ConfigError

NORTH, SOUTH, EAST, WEST = range(4)
MOVES = {NORTH: (-1, 0), SOUTH: (1, 0), EAST: (0, 1), WEST: (0, -1)}


class NaiveSnake:
    """The same game with a list of cells, tail first; the caller gives the apples' positions."""

    def __init__(self, size, apple):
        self.size, self.apple, self.hunger = size, apple, 0
        self.body = [(size // 2, size // 2 - 1), (size // 2, size // 2)]
        self.action = EAST

    def step(self, action):
        """Reward, and whether it ended: by a death or a full board, or by hunger."""
        if {action, self.action} not in ({NORTH, SOUTH}, {EAST, WEST}):
            self.action = action
        head = tuple(np.add(self.body[-1], MOVES[self.action]).tolist())
        if head == self.apple:
            self.body.append(head)
            self.hunger = 0
            return 1.0, len(self.body) == self.size**2, False
        tail = self.body.pop(0)
        if head in self.body or not (0 <= head[0] < self.size and 0 <= head[1] < self.size):
            self.body.insert(0, tail)
            return -1.0, True, False
        self.body.append(head)
        self.hunger += 1
        return 0.0, False, self.hunger == self.size**2

    def text(self):
        cells = dict.fromkeys(self.body, "o") | {self.body[-1]: "@"}
        if len(self.body) < self.size**2:
            cells[self.apple] = "*"
        wall = "#" * (self.size + 2)
        rows = ("".join(cells.get((r, c), ".") for c in range(self.size)) for r in range(self.size))
        return "\n".join([wall, *(f"#{row}#" for row in rows), wall])


def apple_in(environment):
    lines = environment.render().splitlines()[1:-1]
    return next(((r, line.index("*") - 1) for r, line in enumerate(lines) if "*" in line), None)


class Places:
    """Replaces the random generator: apples appear in the given cells."""

    def __init__(self, environment, cells):
        self.environment, self.cells = environment, list(cells)

    def integers(self, count):
        lines = self.environment.render().splitlines()[1:-1]
        free = [(r, c) for r, line in enumerate(lines) for c, cell in enumerate(line[1:-1]) if cell not in "o@"]
        assert count == len(free)
        return free.index(self.cells.pop(0))


def start(*apples, size=5, observation="grid", **options):
    """A game whose first apples are there."""
    environment = Snake(render_mode="ansi", size=size, observation=observation, **options)
    environment.np_random = Places(environment, apples)
    environment.reset()
    return environment


def circle(size):
    """Actions of a walk through all cells of an even board and back to (0, 0), which goes east along the first row."""
    serpent = []
    for row in range(1, size):
        serpent += [WEST if row % 2 else EAST] * (size - 2) + [SOUTH]
    return [EAST] * (size - 1) + [SOUTH] + serpent[:-1] + [WEST] + [NORTH] * (size - 1)


@pytest.mark.parametrize("name", ["Snake", "SnakeGrid", "SnakeFrames"])
def test_passes_gymnasiums_own_check(name):
    for mode in ("rgb_array", "ansi"):
        check_env(gymnasium.make(f"headrace/{name}-v0", render_mode=mode).unwrapped)


def test_each_id_has_its_kind_of_observation():
    assert make("headrace/Snake-v0").observation_space.shape == (3, 19, 19)
    assert make("headrace/SnakeGrid-v0").observation_space.shape == (4, 10, 10)
    assert make("headrace/SnakeFrames-v0").observation_space.shape == (16, 16)


def test_hitting_the_wall_ends_the_episode():
    environment = start((0, 0))
    assert [environment.step(EAST)[1:4] for _ in range(3)] == [(0, False, False)] * 2 + [(-1, True, False)]


def test_an_apple_is_worth_one_and_lengthens():
    environment = start((2, 3), (0, 0))
    _, reward, terminated, truncated, info = environment.step(EAST)
    assert (reward, terminated, truncated, info) == (1.0, False, False, {"apples": 1})
    assert environment.render().splitlines()[3].startswith("#.oo@")


def test_reversing_is_ignored():
    environment = start((0, 0))
    environment.step(WEST)
    assert environment.render().splitlines()[3] == "#..o@.#"


def test_hitting_its_body_ends_the_episode_but_the_tails_cell_is_free():
    four = start((2, 3), (1, 3), (0, 0))
    assert [four.step(action)[1] for action in (EAST, NORTH)] == [1, 1]
    assert [four.step(action)[1:3] for action in (WEST, SOUTH, EAST, NORTH)] == [(0, False)] * 4
    assert four.render().splitlines()[2:4] == ["#..o@.#", "#..oo.#"]
    five = start((2, 3), (1, 3), (1, 2), (0, 0))
    assert [five.step(action)[1] for action in (EAST, NORTH, WEST)] == [1, 1, 1]
    assert five.step(SOUTH)[1:3] == (-1, True)
    assert five.render().splitlines()[2:4] == ["#..@o.#", "#.ooo.#"]


@pytest.mark.parametrize("size", [3, 4, 6, 10])
def test_equals_a_naive_snake(size):
    """Play that avoids most deaths and goes for the apple, so that snakes grow; every board is compared as text."""
    chance = random.Random(size)
    environment = Snake(render_mode="ansi", size=size)
    longest = ends = 0
    for seed in range(60):
        environment.reset(seed=seed)
        naive = NaiveSnake(size, apple_in(environment))
        ended = truncated = False
        while not (ended or truncated):
            action = choose(naive, chance)
            _, reward, terminated, cut, info = environment.step(action)
            expected, ended, truncated = naive.step(action)
            assert (reward, terminated, cut, info["apples"]) == (expected, ended, truncated, len(naive.body) - 2)
            if expected == 1 and not ended:
                naive.apple = apple_in(environment)
                assert naive.apple not in naive.body
            assert environment.render() == naive.text()
        longest = max(longest, len(naive.body))
        ends += ended
    assert longest > min(size * size // 2, 12)
    assert ends > 0


def choose(naive, chance):
    """Usually a safe move, and usually one towards the apple."""
    head = naive.body[-1]

    def badness(action):
        cell = tuple(np.add(head, MOVES[action]).tolist())
        dies = cell in naive.body[1:] or not all(0 <= x < naive.size for x in cell)
        return dies, abs(cell[0] - naive.apple[0]) + abs(cell[1] - naive.apple[1]), chance.random()

    return chance.randrange(4) if chance.random() < 0.05 else min(range(4), key=badness)


def test_a_full_board_is_won():
    """A snake that follows the circle never hits itself."""
    environment = Snake(render_mode="ansi", size=4)
    environment.reset(seed=0)
    actions = circle(4)
    position = {(0, 0): 0}
    cell = (0, 0)
    for index, action in enumerate(actions[:-1]):
        cell = tuple(np.add(cell, MOVES[action]).tolist())
        position[cell] = index + 1
    assert len(position) == 16
    head, total, terminated = (2, 2), 0.0, False
    while not terminated:
        action = actions[position[head]]
        head = tuple(np.add(head, MOVES[action]).tolist())
        _, reward, terminated, truncated, info = environment.step(action)
        assert not truncated
        total += reward
    assert (total, info["apples"]) == (14.0, 14)
    assert environment.render().count("o") == 15
    assert "*" not in environment.render()


def test_a_walk_without_apples_is_truncated():
    environment = start((0, 0))
    ends = [environment.step(action)[2:4] for action in [NORTH, WEST, SOUTH, EAST] * 7]
    assert ends[:25] == [(False, False)] * 24 + [(False, True)]
    environment = start((0, 0), patience=3)
    assert [environment.step(action)[3] for action in (NORTH, WEST, SOUTH)] == [False, False, True]


def test_apples_lie_on_every_free_cell_equally_often():
    environment = Snake(size=4, observation="grid")
    counts = np.zeros((4, 4))
    for seed in range(2800):
        counts += environment.reset(seed=seed)[0][2] > 0
    assert counts[2, 1] == counts[2, 2] == 0
    others = counts[counts > 0]
    assert len(others) == 14
    assert ((others - 200) ** 2 / 200).sum() < 34.5  # chi-square with 13 degrees of freedom, 0.001


def test_the_same_seed_is_the_same_game():
    def play(seed):
        environment = Snake(size=6)
        frames = [environment.reset(seed=seed)[0]]
        frames += [environment.step(action)[0] for action in (NORTH, EAST, NORTH)]
        return np.stack(frames)

    np.testing.assert_array_equal(play(3), play(3))
    assert any(not np.array_equal(play(3), play(seed)) for seed in range(4, 8))


def test_the_grid_worked_by_hand():
    """5 x 5: cells are taken in steps of 255 // 25 = 10."""
    environment = start((2, 3), (4, 0))
    grid = environment.step(EAST)[0]
    taken = np.zeros((5, 5), int)
    taken[2, 1:4] = 10, 20, 30
    np.testing.assert_array_equal(grid[1], taken)
    np.testing.assert_array_equal(grid[0], np.where(taken == 0, 255, 0))
    assert np.argwhere(grid[2]).tolist() == [[4, 0]]
    assert grid[2].max() == grid[3].max() == 255
    assert np.argwhere(grid[3]).tolist() == [[2, 3]]


def test_the_view_is_the_grid_around_the_head_with_walls():
    environment = start((1, 4), observation="view")
    view = environment.step(NORTH)[0]
    assert view.shape == (3, 9, 9)
    board = slice(4 - 1, 4 - 1 + 5), slice(4 - 2, 4 - 2 + 5)  # the head is at (1, 2), and in the middle: (4, 4)
    inside = view[:, *board]
    assert inside[1, 1:3, 2].tolist() == [20, 10]
    assert (inside[1] > 0).sum() == 2
    assert inside[2].tolist() == [[0] * 5, [0, 0, 0, 0, 255], *[[0] * 5] * 3]
    np.testing.assert_array_equal(inside[0], np.where(inside[1] == 0, 255, 0))
    outside = np.ones((9, 9), bool)
    outside[board] = False
    assert (view[0][outside] == 0).all()
    assert (view[1][outside] == 250).all()  # the most that fits
    assert (view[2][outside] == 0).all()


def test_frames_match_ong_et_al():
    environment = start((0, 0), observation="frames", pixels=16)
    frame = environment.step(EAST)[0]
    assert (frame.shape, frame.dtype) == ((16, 16), np.uint8)
    cells = np.arange(16) * 5 // 16
    assert frame[0, 0] == 255
    assert (frame == 255).sum() == 4 * 4  # four rows show the first
    np.testing.assert_array_equal(frame == 200, (cells[:, None] == 2) & np.isin(cells, (2, 3)))


@pytest.mark.parametrize("pixels", [16, 32, 64, 128])
def test_frames_of_each_size(pixels):
    frame = Snake(observation="frames", pixels=pixels).reset(seed=0)[0]
    assert frame.shape == (pixels, pixels)
    assert sorted(np.unique(frame)) == [0, 200, 255]


def test_it_renders():
    environment = Snake(render_mode="rgb_array", size=5)
    environment.reset(seed=0)
    image = environment.render()
    assert (image.shape, image.dtype) == ((80, 80, 3), np.uint8)
    cells = image[8::16, 8::16].reshape(25, 3)
    assert len(np.unique(cells, axis=0)) == 4  # free, tail, head, apple
    np.testing.assert_array_equal(image, image[8::16, 8::16].repeat(16, 0).repeat(16, 1))


def test_a_large_board_needs_pixels_for_frames_only():
    assert Snake(size=20).reset(seed=0)[0].shape == (3, 39, 39)
    assert Snake(size=20, observation="grid").reset(seed=0)[0].shape == (4, 20, 20)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 2}, "size is 2; .*3 or more"),
        ({"observation": "frames", "pixels": 9}, "pixels is 9; .*at least the size of the board, 10"),
        ({"patience": 0}, "patience is 0; .*above 0"),
        ({"observation": "sound"}, "observation is .?sound.?; .*view, grid or frames"),
    ],
)
def test_impossible_options_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        Snake(**options)
