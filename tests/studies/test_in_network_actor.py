"""How an actor counts its pushes."""

import numpy as np

from headrace._native import ChunkWriter
from headrace.studies.in_network.actor import Pushes
from headrace.studies.in_network.case import CHUNK_STEPS, DISCOUNT, N_STEP, count_steps, signature


class Sink:
    """A server that takes everything."""

    def __init__(self) -> None:
        self.received: list[bytes] = []

    def put(self, mailbox: str, message: bytes) -> None:
        self.received.append(message)

    insert = put


def episode_chunks(steps: int) -> list[bytes]:
    writer = ChunkWriter(signature(), n_step=N_STEP, discount=DISCOUNT, chunk_steps=CHUNK_STEPS, actor=0)
    frame = np.zeros((84, 84), np.uint8)
    writer.start(frame)
    for step in range(1, steps + 1):
        writer.append(0, 0.0, frame, step == steps, False, 0.0, 0.0)
    return writer.take()


def test_an_episode_of_63_steps_is_63_transitions() -> None:
    chunks = episode_chunks(63)
    assert [count_steps(chunk) for chunk in chunks] == [50, 13]
    sink = Sink()
    pushes = Pushes(sink, sampled_by_server=True)
    pushes.send(chunks, 1)  # to fill a table
    for chunk in chunks:
        pushes(chunk)
    assert pushes.transitions == 63
    assert pushes.all_transitions == 113
    assert pushes.bytes == sum(map(len, chunks))
    assert sink.received == [chunks[0], *chunks]
    pushes.reset()
    assert (pushes.transitions, pushes.all_transitions) == (0, 113)
