"""Replay: tables of experience, in this process or on a server, with one contract."""

from headrace._native import BatchAhead, BatchView, ChunkWriter, Signature
from headrace.replay.base import Experience, ReplayTable
from headrace.replay.batches import BatchBuffer, Batches, BatchesAhead, StreamedBatches
from headrace.replay.mixture import MixedBatches, SampledBatches
from headrace.replay.remote import Connection, RemoteTable, connect
from headrace.replay.table import Table
from headrace.replay.writer import Writer

__all__ = [
    "BatchAhead",
    "BatchBuffer",
    "BatchView",
    "Batches",
    "BatchesAhead",
    "ChunkWriter",
    "Connection",
    "Experience",
    "MixedBatches",
    "RemoteTable",
    "ReplayTable",
    "SampledBatches",
    "Signature",
    "StreamedBatches",
    "Table",
    "Writer",
    "connect",
]
