"""Every flag of `headrace train`, its default, and the messages for mistakes."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest

from headrace.algorithms.d4pg.config import D4PG
from headrace.algorithms.dqn.config import DQN
from headrace.algorithms.registry import ALGORITHMS
from headrace.cli.arguments import find_environment, flag_types, repeating
from headrace.cli.train import options_type, read_options
from headrace.errors import ConfigError
from headrace.settings import PRESETS, RunConfig, preset
from headrace.topologies.apex import Apex
from headrace.topologies.registry import TOPOLOGIES
from headrace.topologies.serial import Serial


def words(text):
    return text.split()


DQN_APEX = flag_types(options_type("dqn", "apex"))


@pytest.mark.parametrize("environment", [*PRESETS, "ALE/Pong-v5", "dm_control/finger-spin", "Unknown-v0"])
@pytest.mark.parametrize("topology", ["apex", "serial"])
def test_an_environment_alone_gives_its_preset(environment, topology):
    options = read_options([environment, "--topology", topology])
    known = preset(environment)
    assert options.environment == environment
    assert options.algorithm == known.algorithm
    assert options.topology == known.topology(topology)
    assert (options.algorithm_name, options.topology_name) == (known.algorithm.name, topology)
    settings = (
        "evaluation_period_seconds",
        "evaluation_episodes",
        "final_evaluation_episodes",
        "checkpoint_period_seconds",
    )
    usual = RunConfig(environment, **{name: getattr(known, name) for name in settings})
    for field in dataclasses.fields(RunConfig):
        if field.name not in ("algorithm", "topology", "server"):
            assert getattr(options, field.name) == getattr(usual, field.name), field.name
    assert options.server.to_config() == usual.server


def other(value, kind):
    """A value other than this one, and how it is written."""
    if kind is bool:
        return not value, []
    if kind in (int, int | None):
        changed = value // 2 if value and value > 1 else 2
        return changed, [str(changed)]
    if kind in (float, float | None):
        changed = (value or 1.0) / 2
        return changed, [repr(changed)]
    if kind == tuple[int, ...]:
        return (7, 8, 9), ["7", "8", "9"]
    if kind == tuple[float, ...]:
        return (0.5, 3.0), [".5", "3"]
    parts = ["package.module:build"] if kind is str else get_args(kind)
    choices = [choice for part in parts for choice in get_args(part) or [part]]  # of a union of literals, too
    changed = next(choice for choice in choices if choice != value)
    return changed, [changed]


WITH = {
    "optimizer_decay": ["--optimizer", "rmsprop"],
    "priority_exponent": ["--prioritized"],
    "importance_exponent": ["--prioritized"],
    "epsilon_final": ["--topology", "serial"],
    "epsilon_decay_steps": ["--topology", "serial"],
}
"""What a setting has an effect with."""


@pytest.mark.parametrize(
    ("part", "field"),
    [(part, field.name) for part in (DQN, D4PG, Apex, Serial) for field in dataclasses.fields(part)],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_every_setting_has_a_flag_that_changes_only_it(part, field):
    topology = "serial" if part is Serial else "apex"
    words = ["X", "--topology", topology, "--algorithm", "d4pg" if part is D4PG else "dqn", *WITH.get(field, ())]
    start = read_options(words)
    place = "algorithm" if part in (DQN, D4PG) else "topology"
    before = getattr(start, place)
    value, written = other(getattr(before, field), flag_types(part)["--" + field.replace("_", "-")])
    flag = "--" + ("no-" if value is False else "") + field.replace("_", "-")
    options = read_options([*words, flag, *written])
    assert getattr(options, place) == dataclasses.replace(before, **{field: value})
    assert dataclasses.replace(options, **{place: before}) == start


def test_the_flags_of_a_run():
    options = read_options(
        words(
            "--steps 200k LunarLander-v3 --time-limit 10m --until-score -85.5 --seed 3 --run-dir runs/a --device cpu "
            "--evaluation-period-seconds 0 --evaluation-period-steps 1e3 --evaluation-episodes 4 --quiet "
            "--checkpoint-period-seconds 60 --learner-engine torch"
        )
    )
    assert options.environment == "LunarLander-v3"
    assert (options.steps, options.time_limit_seconds, options.until_score, options.seed) == (200_000, 600.0, -85.5, 3)
    assert (options.run_dir, options.device, options.quiet) == (Path("runs/a"), "cpu", True)
    assert (options.evaluation_period_seconds, options.evaluation_period_steps) == (0.0, 1_000)
    assert (options.evaluation_episodes, options.checkpoint_period_seconds) == (4, 60.0)
    assert options.learner_engine == "torch"


def test_every_duration_may_have_a_unit():
    text = "X --time-limit 1h --evaluation-period-seconds 2m --checkpoint-period-seconds 5m --hang-seconds 90s"
    options = read_options(words(text))
    assert (options.time_limit_seconds, options.evaluation_period_seconds) == (3600.0, 120.0)
    assert (options.checkpoint_period_seconds, options.hang_seconds) == (300.0, 90.0)


@pytest.mark.parametrize(
    "text",
    [
        "CartPole-v1 --hidden 7 8 --no-double",
        "--hidden 7 8 CartPole-v1 --no-double",
        "--no-double CartPole-v1 --hidden 7 8",
        "--no-double --hidden 7 8 --seed=0 CartPole-v1",
        "--no_double --topology apex --hidden 7 8 CartPole-v1",
    ],
)
def test_the_environment_may_be_at_any_position(text):
    options = read_options(words(text))
    expected = dataclasses.replace(preset("CartPole-v1").algorithm, hidden=(7, 8), double=False)
    assert (options.environment, options.algorithm) == ("CartPole-v1", expected)


@pytest.mark.parametrize(
    "text", ["--run-dir runs/a X --seed 3", "X --run_dir=runs/a --seed 3", "X --seed 3 --run-dir a"]
)
def test_a_command_that_repeats_a_run_leaves_out_its_directory(text):
    assert repeating(words(f"{text} --quiet"), "run-dir") == ["X", "--seed", "3"]


def test_no_environment():
    assert find_environment(["--seed", "3", "--double"], DQN_APEX) is None
    for text in ("", "--seed 3", "--topology", "--seed"):
        with pytest.raises(ConfigError, match="train needs an environment"):
            read_options(words(text))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("X --stepz 3", r"^--stepz is not an option of headrace train; did you mean --steps\?$"),
        ("X --no-duelling", r"^--no-duelling is not an option of headrace train; did you mean --dueling\?$"),
        ("X --qqq", r"^--qqq is not an option of headrace train; headrace train --help lists the options$"),
        ("X -n 3", r"^-n is not an option of headrace train"),
        ("X Y", r"^Unrecognized options: Y \(see headrace train --help\)$"),
        ("X --double=3", r"^--double takes no value, but 3 is given; write --double alone$"),
        (
            "X --topology serial --actors 3",
            r"^--actors is a setting of --topology apex, and this run's is serial; leave",
        ),
        ("X --topology=serial --pull-period=3", r"^--pull-period is a setting of --topology apex"),
        (
            "CartPole-v1 --value-min 3",
            r"^--value-min is a setting of --algorithm d4pg, and this run's is dqn; leave it out or add --algo",
        ),
        (
            "--no-double Pendulum-v1",
            r"^--double is a setting of --algorithm dqn or dyna-q or r2d2, and this run's is d4pg; leave it out or",
        ),
        ("X --algorithm=d4pg --epsilon_base=0", r"^--epsilon-base is a setting of --algorithm dqn"),
        ("X --actor-cpus 2", r"^--actor-cpus is a setting of --launcher ray, and this run's is processes; leave"),
        ("X --launcher ray --actor-cpus 0", r"^actor_cpus is 0; it must be above 0 and at most 1024"),
        ("X --launcher ray --wait-seconds 0", r"^wait_seconds is 0; it must be above 0"),
        ("X --launcher slurm", r"--launcher.*processes.*ray"),
        (
            "X --epsilon-final 0.01",
            r"^epsilon_final is given, and topology is apex, where it has no effect: leave it out, or take topology s",
        ),
        ("X --topology serial --epsilon_base=0.3", r"^epsilon_base is given, and topology is serial, where it has no"),
        ("X --topology hogwild --publish-period 5", r"^publish_period is given.*take topology apex$"),
        ("X --algorithm dyna-q --topology serial --planners 2", r"^planners is given.*take topology apex$"),
        ("X --algorithm r2d2 --chunk-steps 9", r"^chunk_steps is given, and algorithm is r2d2, on which it has no eff"),
        ("X --algorithm a3c --chunk-steps 9", r"^chunk_steps is given, and algorithm is a3c, on which it has no effe"),
        ("X --topology serial --evaluation-period-seconds 5", r"^evaluation_period_seconds is given.* serial"),
        (
            "X --evaluation-period-steps 1k",
            r"^evaluation_period_steps is given, and evaluation_period_seconds is 30, so that it has no effect: leave ",
        ),
        (
            "X --network own:build --hidden 32",
            r"^hidden is given, and network is own:build, which has its own layers: leave it out$",
        ),
        ("X --topology serial --precision int8", r"^--precision is a setting of --topology apex"),
        ("X --algorithm", r"^Missing value for argument '--algorithm'"),
        (
            "X --sigmas 0 --algorithm d4pg --value-max -2e3",
            r"^value_max is -2000; it must be above value_min \(-150.0\)$",
        ),
        ("X --pull-period 1.5", r"^pull_period is 1.5; it must be a whole number of steps$"),
        ("X --communication-bits 12 --precision int8", r"^communication_bits is 12 and precision is int8"),
        ("X --topology ring", r"'ring'.*'apex', 'serial'"),
        ("X --algorithm sarsa", r"'sarsa'.*'dqn', 'dyna-q', 'd4pg', 'td3', 'sac', 'crossq', 'a3c'"),
        ("X --steps abc", r"^--steps: abc is not a count; write a whole number such as 200000, 200k or 1e6 \(see"),
        ("X --steps 1.5", r"^--steps: 1.5 is not a count"),
        ("X --time-limit soon", r"^--time-limit: soon is not a duration; write seconds or a unit"),
        ("X --learning-rate fast", r"^--learning-rate: fast is not a number; write one such as 0.5, 1e-4 or 200 "),
        ("X --loss l2", r"'l2' for argument '--loss'.*'huber', 'squared'"),
        ("X --n-step", r"Missing value for argument '--n-step'"),
        ("X --n-step 0", r"^n_step is 0; it must be above 0$"),
        ("X --priority-exponent -0.5", r"^priority_exponent is -0.5; it must be 0 or more$"),
        ("X --actors 0", r"^actors is 0; it must be above 0$"),
        ("X --replay-capacity 10", r"^replay_capacity is 10; it must be at least the batch size \(256\)"),
        ("X --steps 0", r"^steps is 0; it must be above 0$"),
        ("X --seed -1", r"^seed is -1; it must be between 0 and"),
        ("X --learner-engine jax", r"'jax'.*'auto', 'native', 'torch'"),
    ],
)
def test_mistakes_are_one_line(text, complaint):
    with pytest.raises(ConfigError, match=complaint) as caught:
        read_options(words(text))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["--help", "LunarLander-v3 -h", "--topology serial --help CartPole-v1"])
def test_help_shows_the_defaults_of_the_environment(text, capsys):
    with pytest.raises(SystemExit) as end:
        read_options(words(text))
    assert end.value.code == 0
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    environment = find_environment(words(text), DQN_APEX)
    known = preset(words(text)[environment] if environment is not None else "")
    period = known.algorithm.target_update_period
    assert f"Learner updates between updates of the target network. (default: {period})" in shown
    envs = known.sizing.environments if "serial" in text else known.sizing.actor_environments
    assert f"with one batched inference (E). (default: {envs})" in shown
    assert ("--actors" in shown) == ("serial" not in text)
    assert "(van Hasselt et al. 2016)" in shown


@pytest.mark.parametrize("environment", ["CartPole-v1", "Unknown-v0"])
def test_an_algorithm_other_than_the_presets_has_its_own_defaults(environment):
    options = read_options([environment, "--algorithm", "d4pg", "--n-step", "2"])
    assert (options.algorithm, options.algorithm_name) == (D4PG(n_step=2), "d4pg")
    assert options.topology == preset(environment).topology("apex")
    assert read_options(["dm_control/finger-spin", "--algorithm=dqn"]).algorithm == DQN()
    same = read_options(["Pendulum-v1", "--algorithm", "d4pg"]).algorithm
    assert same == preset("Pendulum-v1").algorithm != D4PG()


def test_a_list_of_numbers_ends_at_the_environment():
    options = read_options(
        words("--sigmas 0 .1 0.25 Pendulum-v1 --value-min -1.5k --pull-period 0.5 --pull-unit seconds")
    )
    assert (options.environment, options.algorithm.sigmas) == ("Pendulum-v1", (0.0, 0.1, 0.25))
    assert (options.algorithm.value_min, options.topology.pull_period) == (-1500.0, 0.5)
    assert find_environment(words("--hidden 64 1_000 2048-v0"), DQN_APEX) == 3  # which only begins like a number


@pytest.mark.parametrize("algorithm", ALGORITHMS.known())
@pytest.mark.parametrize("topology", TOPOLOGIES.built_in)
def test_help_shows_only_settings_of_the_chosen_algorithm_and_topology(algorithm, topology, capsys):
    with pytest.raises(SystemExit):
        read_options(["X", "--algorithm", algorithm, "--topology", topology, "--help"])
    out = capsys.readouterr().out
    own = flag_types(ALGORITHMS.known()[algorithm]) | flag_types(TOPOLOGIES.find(topology))
    for kind in (*ALGORITHMS.known().values(), *TOPOLOGIES.known().values()):
        for flag in flag_types(kind):
            assert (f" {flag} " in out or f" {flag}, " in out) == (flag in own), flag
    described = " ".join(out.replace("│", " ").split())
    assert f"with --algorithm {algorithm} --topology {topology}." in described
    assert ("the first of which is followed by LayerNorm and tanh" in described) == (algorithm == "d4pg")
    assert ("an actor polls for newer parameters" in described) == (topology == "apex")


ADDED = """
from dataclasses import dataclass
from typing import ClassVar
from headrace import DQN

@dataclass(frozen=True)
class Kind(DQN):
    name: ClassVar[str] = "added"
    seed: int = 3
    actors: int = 3
"""


def test_settings_of_an_added_algorithm_do_not_take_those_of_others(add_package: Callable[..., None]) -> None:
    add_package("headrace.algorithms", "added", "added_algorithm", ADDED)
    ALGORITHMS.forget()
    try:
        options = read_options(["CartPole-v1", "--seed", "5", "--actors", "2"])
        assert (options.seed, options.topology.actors) == (5, 2)
        with pytest.raises(ConfigError, match=r"^--seed is a setting of --algorithm added and one of the run; another"):
            read_options(["CartPole-v1", "--algorithm", "added"])
    finally:
        ALGORITHMS.forget()
