"""Replay: tables of experience, in this process or on a server, with one contract."""

from headrace._native import BatchAhead, BatchView, ChunkWriter, Signature
from headrace.replay.base import Replay
from headrace.replay.batches import BatchBuffer, BatchesAhead, StreamedBatches
from headrace.replay.mixture import MixedBatches, Sampled
from headrace.replay.remote import Connection, RemoteTable, connect
from headrace.replay.table import Table
from headrace.replay.writer import Writer

__all__ = [
    "BatchAhead",
    "BatchBuffer",
    "BatchView",
    "BatchesAhead",
    "ChunkWriter",
    "Connection",
    "MixedBatches",
    "RemoteTable",
    "Replay",
    "Sampled",
    "Signature",
    "StreamedBatches",
    "Table",
    "Writer",
    "connect",
]
