"""Forwards Ethernet frames between two interfaces, and loses and reorders some: python -m benchmarks.lossy_wire A B."""

import random
import select
import socket
import sys

_LOST = 0.05
_LATE = 0.05  # share of the frames that are held until the next one of the same direction
_LONGEST_SECONDS = 0.005  # for which a frame is held if none comes
_EVERY_PROTOCOL = 3
_MOST_BYTES = 1 << 16
_BUFFER_BYTES = 4 << 20


def _open(interface: str) -> socket.socket:
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_EVERY_PROTOCOL))
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
    wire.bind((interface, 0))
    return wire


def main() -> None:
    """Forwards until it is killed."""
    wires = [_open(name) for name in sys.argv[1:3]]
    held: dict[socket.socket, bytes] = {}
    chance = random.Random(0).random
    print("forwarding", flush=True)
    while True:
        ready, _, _ = select.select(wires, [], [], _LONGEST_SECONDS if held else None)
        for wire in ready:
            frame, origin = wire.recvfrom(_MOST_BYTES)
            if origin[2] == socket.PACKET_OUTGOING or chance() < _LOST:
                continue
            other = wires[1 - wires.index(wire)]
            if other not in held and chance() < _LATE:
                held[other] = frame
                continue
            other.send(frame)
            if other in held:
                other.send(held.pop(other))
        if not ready:
            for other, frame in held.items():
                other.send(frame)
            held.clear()


if __name__ == "__main__":
    main()
