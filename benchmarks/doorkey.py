"""The best possible mean return of minigrid/DoorKey-5x5-v0: shortest routes, found by the room's rules and then played.

    python -m benchmarks.doorkey [--rooms 1000] [--seed 0]

A route is found by breadth-first search: to the key, with it to the door, through the door to the goal. Each is played
in the environment, whose return counts.
"""

import statistics
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

from benchmarks.measure import make_parser, positive, run
from headrace.environments import make

__all__ = ["shortest_route"]

_LEFT, _RIGHT, _FORWARD, _PICKUP, _TOGGLE = 0, 1, 2, 3, 5
_STEPS = ((1, 0), (0, 1), (-1, 0), (0, -1))  # by direction: right, down, left, up


class _State(NamedTuple):
    x: int
    y: int
    direction: int
    has_key: bool = False
    is_open: bool = False

    @property
    def ahead(self) -> tuple[int, int]:
        dx, dy = _STEPS[self.direction]
        return self.x + dx, self.y + dy


def shortest_route(room: Any) -> list[int]:
    """Actions from the room's present state, before the key is taken, to the goal."""
    grid = room.grid
    kinds = {(x, y): grid.get(x, y).type if grid.get(x, y) else "empty"
             for x in range(grid.width) for y in range(grid.height)}  # fmt: skip
    begin = _State(int(room.agent_pos[0]), int(room.agent_pos[1]), int(room.agent_dir))
    routes: dict[_State, list[int]] = {begin: []}
    waiting = deque([begin])
    while waiting:
        state = waiting.popleft()
        if kinds[state.x, state.y] == "goal":
            return routes[state]
        for action, following in _moves(state, kinds[state.ahead]):
            if following not in routes:
                routes[following] = [*routes[state], action]
                waiting.append(following)
    raise ValueError("the goal of this room is out of reach")


def _moves(state: _State, kind: str) -> Iterator[tuple[int, _State]]:
    """Actions that change something, by what is ahead."""
    yield _LEFT, state._replace(direction=(state.direction - 1) % 4)
    yield _RIGHT, state._replace(direction=(state.direction + 1) % 4)
    if kind == "key" and not state.has_key:
        yield _PICKUP, state._replace(has_key=True)
    elif kind == "door" and state.has_key and not state.is_open:
        yield _TOGGLE, state._replace(is_open=True)
    elif kind in ("empty", "goal", "key") or (kind == "door" and state.is_open):
        x, y = state.ahead
        yield _FORWARD, state._replace(x=x, y=y)


def main() -> int:
    """Prints the mean return and its standard error."""
    parser = make_parser(__doc__)
    parser.add_argument("--rooms", type=positive, default=1_000)
    parser.add_argument("--seed", type=int, default=0, help="of the first room; the others follow")
    options = parser.parse_args()
    if options.rooms < 2:
        parser.error(f"--rooms is {options.rooms}; a standard error needs 2")
    environment = make("minigrid/DoorKey-5x5-v0")
    returns = []
    for seed in range(options.seed, options.seed + options.rooms):
        environment.reset(seed=seed)
        returns.append(sum(float(environment.step(action)[1]) for action in shortest_route(environment.unwrapped)))
    error = statistics.stdev(returns) / len(returns) ** 0.5
    print(f"{options.rooms} rooms: best mean return {statistics.fmean(returns):.4f}, standard error {error:.4f}")
    return 0


if __name__ == "__main__":
    run(main)
