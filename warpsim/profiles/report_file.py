"""The file of a report of Nsight Compute: its blocks, and the machine code inside.

A report is a sequence of blocks: the word "NVR", a header, and for each block the size of its header, the header with the size of
its payload in field 5, and the payload. The vendor's reader takes a file that ends within a block without a word, so the blocks
are walked before it reads the file.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from warpsim.frontends.errors import FrontEndError
from warpsim.frontends.machine_code.cubin import Cubin, read_cubin
from warpsim.profiles.errors import ProfileError

_MAGIC = b"NVR\0"
_ELF = b"\x7fELF\x02\x01\x01"
_PAYLOAD_SIZE = 5


def check_blocks(where: str, data: bytes) -> None:
    """Checks that a file, of which the name and the content are given, is a report, and that its last block is whole.

    Raises:
        ProfileError: it is not, or it is damaged.
    """
    if data[:4] != _MAGIC:
        raise ProfileError(f"{where}: is not a report of Nsight Compute (.ncu-rep)")
    try:
        at = 8 + struct.unpack_from("<I", data, 4)[0]
        while at < len(data):
            (size,) = struct.unpack_from("<I", data, at)
            header = data[at + 4 : at + 4 + size]
            at += 4 + size
            if len(header) < size:
                break
            at += _varint_field(header, _PAYLOAD_SIZE)
    except (struct.error, IndexError):
        at = len(data) + 1
    if at != len(data):
        raise ProfileError(f"{where}: is truncated or damaged: its {len(data)} bytes end within a block")


def _varint_field(message: bytes, wanted: int) -> int:
    """Returns a number of a message in the encoding of protocol buffers; 0 where it is not given."""
    at, found = 0, 0
    while at < len(message):
        key, at = _varint(message, at)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, at = _varint(message, at)
            if number == wanted:
                found = value
        elif kind == 2:
            size, at = _varint(message, at)
            at += size
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
        else:
            raise IndexError("an unknown encoding")
    return found


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def cubins_in(data: bytes) -> Iterator[Cubin]:
    """Yields the cubins in a report; each begins with the header of an ELF file and is not compressed."""
    at = data.find(_ELF)
    while at >= 0:
        try:
            yield read_cubin(data[at:])
        except FrontEndError:
            pass
        at = data.find(_ELF, at + 4)
