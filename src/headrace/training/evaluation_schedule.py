"""Decides when a run's policy is evaluated, and pauses training for an evaluation if required."""

import math

from headrace.report.formats import score_text
from headrace.roles.evaluator import LONGEST_EPISODE
from headrace.roles.messages import Answer
from headrace.training.evaluation import CONFIRMATION_EPISODES, Evaluation, Moment
from headrace.training.session import Session

__all__ = ["EvaluationSchedule"]

_HINT_SECONDS = 3.0


class EvaluationSchedule:
    """Requests evaluations when they are due and records their results. One thread.

    If `holds`, training and its clock are paused during an evaluation. `next_evaluation` is the period by default.
    """

    def __init__(self, session: Session, *, holds: bool, next_evaluation: float | None = None) -> None:
        self._session = session
        self._config, self._program, self._clock = session.config, session.program, session.clock
        self._evaluations = session.evaluations
        self._holds = holds
        self._by_steps = session.program.deterministic or session.config.evaluation_period_seconds == 0
        self.next_evaluation = self._period if next_evaluation is None else next_evaluation
        """When the next evaluation is due: in environment steps, or in seconds."""
        self._next_hint = 0.0
        self._held_at = Moment(0, 0, 0.0)  # the last time that all steps were known
        self._steps_per_second = 0.0  # between the last two such times

    @property
    def seconds_left(self) -> float:
        """Training seconds until an evaluation is due; infinite if only reported steps say so, or if one is pending.

        Workers report less often than they are evaluated in a large simulated run: between two times that they were
        held, their steps are estimated from their speed.
        """
        if self._program.deterministic or self._evaluations.pending or not self._program.learner.steps:
            return math.inf
        if not self._by_steps:
            return self.next_evaluation - self._clock.seconds
        if not self._steps_per_second:
            return math.inf
        due = (self.next_evaluation - self._held_at.environment_steps) / self._steps_per_second
        return self._held_at.seconds + due - self._clock.seconds

    def resume(self, awaited_episodes: int, *, hold: bool) -> None:
        """Before the first step, makes up for the evaluation that was pending or due when the run was interrupted.

        `hold` pauses training for it in any case.
        """
        if awaited_episodes:
            self.evaluate(awaited_episodes, hold=hold or self._holds or self._decides(awaited_episodes))
        elif self._program.deterministic:
            self.evaluate_when_due()

    def evaluate_when_due(self) -> None:
        """Requests an evaluation if one is due or if the actors' own returns suggest one."""
        if self._evaluations.pending or not self._program.learner.steps:
            return
        moment = self._session.moment
        position = moment.environment_steps if self._by_steps else moment.seconds
        if self.seconds_left <= 0:
            position = max(position, self.next_evaluation)
        if position >= self.next_evaluation or self._hinted():
            self.next_evaluation = position + self._period
            last = self._evaluations.last
            if not self._by_steps and last is not None and last.moment.learner_steps == moment.learner_steps:
                return  # of the same policy, such as the final evaluation of an earlier start
            episodes = self._config.evaluation_episodes
            self.evaluate(episodes, hold=self._holds or self._decides(episodes))

    def evaluate(self, episodes: int, *, hold: bool) -> None:
        """Requests greedy episodes with the current policy; `hold` pauses training and its clock until the answer."""
        if hold and not self._clock.paused:
            self._clock.pause()
            self._program.table.set_paused(True)
            self._clock.count(self._program.table.worked_on)
        self._evaluations.request(self._session.policy(), self._session.moment, episodes, hold=hold)

    def resume_training(self) -> None:
        """Resumes paused training if no evaluation is pending."""
        if not self._clock.paused or self._evaluations.pending or self._evaluations.solved_at:
            return
        self._program.table.set_paused(False)
        self._session.skip(self._clock.resume())

    def receive(self, answer: Answer) -> None:
        """Processes the evaluator's answer; a score that reaches the target is confirmed by a second evaluation."""
        held = self._evaluations.holding and self._config.topology.has_workers
        moment = self._session.moment if held else None  # paused workers have reported their last turns by now
        evaluation = self._evaluations.complete(answer, moment)
        if evaluation is None:
            return
        if moment is not None and self._by_steps and self._holds:  # each evaluation, so that the speed is a recent one
            self._measure_speed(moment)
        self._session.run.append(evaluation.record())
        self._say(evaluation)
        if self._evaluations.promising(evaluation) and not self._evaluations.solved_at:
            self.evaluate(CONFIRMATION_EPISODES, hold=True)  # holds, so that the evaluated policy is the one kept

    def _measure_speed(self, held: Moment) -> None:
        """Counts the next period from here, where the workers are held."""
        seconds = held.seconds - self._held_at.seconds
        if seconds > 0:
            self._steps_per_second = (held.environment_steps - self._held_at.environment_steps) / seconds
            self._held_at = held
        self.next_evaluation = held.environment_steps + self._period

    def _decides(self, episodes: int) -> bool:
        """Whether an evaluation may end the run, so that its policy must be the one kept."""
        return self._config.until_score is not None and episodes >= CONFIRMATION_EPISODES

    def _say(self, evaluation: Evaluation) -> None:
        cut = sum(length >= LONGEST_EPISODE for length in evaluation.lengths)
        self._session.display.message(
            f"evaluation at {evaluation.moment.environment_steps:,} steps, {evaluation.moment.seconds:.0f} s: "
            f"{score_text(evaluation.mean, evaluation.std)} over {len(evaluation.returns)} greedy episodes"
            + (f", {cut} of them cut at {LONGEST_EPISODE:,} steps" if cut else "")
        )

    @property
    def _period(self) -> float:
        config = self._config
        return config.evaluation_period_steps if self._by_steps else config.evaluation_period_seconds

    def _hinted(self) -> bool:
        """Whether the environments that hardly explore already reach the target score."""
        target, seen = self._config.until_score, self._session.monitor.near_greedy_return
        if self._by_steps or target is None or seen is None or seen < target:
            return False
        if self._clock.seconds < self._next_hint:
            return False
        self._next_hint = self._clock.seconds + _HINT_SECONDS
        self._session.monitor.clear_near_greedy()
        return True
