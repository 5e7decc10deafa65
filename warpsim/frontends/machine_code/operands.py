"""Operands of machine instructions, and the registers that an instruction writes and reads."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache

from warpsim.frontends.machine_code.sass import MachineInstruction
from warpsim.kernels.register_reads import OPERAND_SLOTS

ZERO, TRUE = ("RZ", "URZ"), ("PT", "UPT")
"""Registers that are always zero, and predicates that are always true."""


@dataclass(frozen=True, slots=True)
class Register:
    """A register or predicate: "R4", "UR2", "P0", "UP1", "RZ" or "PT", with the signs and suffixes that it bears."""

    name: str
    negative: bool = False
    inverted: bool = False
    absolute: bool = False
    suffix: str = ""

    @property
    def pair(self) -> bool:
        """Whether the operand is a register and its successor."""
        return ".64" in self.suffix


@dataclass(frozen=True, slots=True)
class Immediate:
    """A number in the instruction: its lower and its upper word. One that is written with a minus has the sign in both."""

    value: int
    high: int = 0


@dataclass(frozen=True, slots=True)
class Constant:
    """A word of a constant bank, at a fixed offset or one that a register is added to, with its signs and suffixes."""

    bank: int
    offset: int
    index: Register | None = None
    negative: bool = False
    inverted: bool = False
    absolute: bool = False
    suffix: str = ""


@dataclass(frozen=True, slots=True)
class Address:
    """An address in brackets: registers, each with a factor, and an offset in bytes."""

    terms: tuple[tuple[Register, int], ...]
    offset: int


@dataclass(frozen=True, slots=True)
class Other:
    """What is none of these: special registers, labels, descriptors."""

    text: str


Operand = Register | Immediate | Constant | Address | Other

_REGISTER = re.compile(r"(U?R(?:\d+|Z)|U?P(?:\d+|T))((?:\.[A-Za-z0-9_]+)*)$")
_CONSTANT = re.compile(r"c\[(0x[0-9a-f]+)\]\s*\[([^\]]*)\]((?:\.[A-Za-z0-9_]+)*)$")
_NUMBER = re.compile(r"-?0x[0-9a-f]+$")
_NOTE = re.compile(r"\(\*.*?\*\)")
_OPERANDS_OF_TABLE = re.compile(r"(U?R\d+)\s*(-?0x[0-9a-f]+)")


@lru_cache(maxsize=65536)
def operands(text: str) -> tuple[Operand, ...]:
    """Returns the operands of an instruction in order."""
    plain = _NOTE.sub("", text).strip()
    return tuple(_operand(part.strip()) for part in plain.split(",")) if plain else ()


def _operand(text: str) -> Operand:
    if _NUMBER.match(text):
        return Immediate(int(text, 16) & 0xFFFFFFFF, int(text, 16) >> 32 & 0xFFFFFFFF)
    bare, signs = text, ""
    while bare[:1] in ("-", "~", "!", "+"):
        signs, bare = signs + bare[0], bare[1:]
    absolute = bare.startswith("|")
    bare = re.sub(r"^\|([^|]*)\|", r"\1", bare)
    negative, inverted = "-" in signs or "!" in signs, "~" in signs
    if found := _REGISTER.match(bare):
        return Register(found[1], negative, inverted, absolute, found[2].replace(".reuse", ""))
    if found := _CONSTANT.match(bare):
        index, offset = _address(found[2])
        if len(index) <= 1:
            by = index[0][0] if index else None
            return Constant(int(found[1], 16), offset, by, negative, inverted, absolute, found[3])
    elif bare.endswith("]") and "[" in bare and not bare.startswith(("gdesc", "tmem", "cx", "c[")):
        terms, offset = _address(bare[bare.rindex("[") + 1 : -1])
        if len(terms) + (offset != 0) or "0x0" in bare:
            return Address(terms, offset)
        return Address((), 0)
    return Other(text)


def _address(inner: str) -> tuple[tuple[tuple[Register, int], ...], int]:
    """Returns the registers of an address with their factors, and its offset."""
    terms, offset = [], 0
    for part in inner.split("+"):
        part = part.strip()
        if _NUMBER.match(part):
            offset += int(part, 16)
        elif found := _REGISTER.match(part.removeprefix("-")):
            factor = re.search(r"\.X(\d+)", found[2])
            sign = -1 if part.startswith("-") else 1
            terms.append((Register(found[1], suffix=found[2]), sign * (int(factor[1]) if factor else 1)))
    return tuple(terms), offset


def addresses(one: MachineInstruction) -> tuple[Address, ...]:
    """Returns the addresses of an instruction.

    Where the suffix E of the opcode says that addresses have 64 bits, registers without a mark are pairs: uniform ones always,
    and others if no register is marked so, as before Ampere.
    """
    found = tuple(part for part in operands(one.operands) if isinstance(part, Address))
    if (indexed := indexed_constant(one)) is not None:
        return (indexed,)
    if "E" not in one.opcode.split(".")[1:]:
        return found
    marked = any(term.pair for address in found for term, _ in address.terms)

    def pair(term: Register) -> Register:
        return replace(term, suffix=".64") if not term.suffix and (not marked or term.name.startswith("U")) else term

    return tuple(Address(tuple((pair(term), n) for term, n in part.terms), part.offset) for part in found)


def indexed_constant(one: MachineInstruction) -> Address | None:
    """Returns the address in its bank from which each thread loads a constant; None where it is one for all, and for all else."""
    for part in operands(one.operands) if one.base == "LDC" else ():
        if isinstance(part, Constant) and part.index is not None and part.index.name[0] == "R" and part.index.name not in ZERO:
            return Address(((part.index, 1),), part.offset)
    return None


@lru_cache(maxsize=65536)
def _written_count(opcode: str, first_pair: bool) -> int:
    """Returns the number of consecutive registers of a result."""
    base, _, rest = opcode.partition(".")
    base = base.removeprefix("U")
    suffixes = rest.split(".")
    if base in ("HMMA", "QMMA", "OMMA"):
        return 4 if "F32" in suffixes else 2
    if base in ("IMMA", "BMMA"):
        return 2 if suffixes[0].startswith("88") else 4
    if base == "DMMA":
        return 8 if suffixes[0].startswith("16") else 4
    if base in ("HGMMA", "QGMMA", "IGMMA", "BGMMA"):
        shape = re.search(r"x(\d+)x", rest)
        halves = base in ("HGMMA", "QGMMA") and "F32" not in suffixes
        return int(shape[1]) // (4 if halves else 2) if shape else 4
    if base in ("DADD", "DMUL", "DFMA", *_TEXTURES) or first_pair:
        return 2
    if base == "CS2R":
        return 1 if "32" in suffixes else 2
    if base == "LDSM":
        return int(suffixes[-1]) if suffixes[-1] in ("2", "4") else 1
    if base in ("F2F", "I2F", "F2I", "FRND") and suffixes and any(part in ("F64", "S64", "U64") for part in suffixes[:1]):
        return 2
    if base in ("LD", "LDG", "LDS", "LDL", "LDC", "LDCU", "SULD", "ATOM", "ATOMG", "ATOMS", "SHF", *_OF_PAIRS):
        if "128" in suffixes or "256" in suffixes:  # 256 bits are in two groups of registers
            return 4
        return 2 if _of_pairs(suffixes) and base != "SHF" else 1
    return 2 if "WIDE" in suffixes else 1


STACK_POINTER = "R1"

_LEFT_MATRIX = 4
"""Registers of a thread with the left matrix of a product of a warp group, 64 rows of 32 bytes, if shared memory has it not."""

_SPILL = "SpillRefill"
"""The mark of an access that spills or refills registers."""

_WITHOUT_RESULT = frozenset(
    "ST STG STS STL STSM STAS RED REDG REDAS BRA BRX BRXU JMP JMX CALL RET EXIT BAR NOP MEMBAR FENCE BSYNC BSSY BREAK "
    "BMOV DEPBAR LDGDEPBAR LDGSTS ARRIVES WARPSYNC ERRBAR R2P CCTL CCTLL CCTLT NANOSLEEP YIELD KILL BPT UTMALDG UTMASTG UTMAPF "
    "UTMACCTL UTMACMDFLUSH UBLKCP UBLKRED UBLKPF UTMAREDG UCGABAR_ARV UCGABAR_WAIT WARPGROUP ACQBULK CGAERRBAR ENDCOLLECTIVE "
    "PREEXIT SETCTAID RPCMOV SURED SUST PLOP".split()
)

_WITH_PREDICATES_BEHIND = frozenset("IADD3 UIADD3 IADD LEA ULEA IMAD UIMAD LOP3 ULOP3 VIADD VIMNMX SHFL MATCH B2R".split())
"""Instructions that write predicates behind their register."""


@lru_cache(maxsize=65536)
def _effects(opcode: str, text: str, guard: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    base = opcode.partition(".")[0]
    parts = operands(text)
    results: list[str] = []
    reads: list[str] = []
    start = 0
    if base in ("R2P", "UR2UP"):
        results += masked_predicates(parts)
    elif base in _WITHOUT_RESULT:
        pass
    elif base == "SYNCS":  # a phase, or the state of a barrier in shared memory, of 64 bits
        start = 1
        if parts and isinstance(parts[0], Register):
            results += registers_of(parts[0].name, 1 if is_predicate(parts[0]) else 2)
    else:
        start = _results_end(opcode, parts)
        fetched = _components(parts) if base in _TEXTURES and start == 2 else ()
        for place, part in enumerate(parts[:start]):
            if isinstance(part, Register):
                count = fetched[place] if fetched else _written_count(opcode, part.pair)
                results += registers_of(part.name, count if _is_data(part) else 1) if count else []
    values = [place for place, part in enumerate(parts) if not is_predicate(part)]
    for place in range(start, len(parts)):
        reads += _read_by(parts[place], opcode, base, is_last=place == values[-1] if values else False)
    if base in ("P2R", "UP2UR"):
        reads += masked_predicates(parts)
    if guard:
        reads.append(guard.lstrip("@!"))
    return tuple(dict.fromkeys(results)), tuple(dict.fromkeys(reads))


def _components(parts: tuple[Operand, ...]) -> tuple[int, int]:
    """Returns how many registers of each of its two groups a fetch of a texture writes, by its mask of components.

    The second group holds the first two components, and the first group the others.
    """
    mask = parts[-1]
    number = mask.value.bit_count() if isinstance(mask, Immediate) else 4
    return max(0, number - 2), min(2, number)


def masked_predicates(parts: tuple[Operand, ...]) -> list[str]:
    """Returns the predicates that the mask of a move between predicates and a register names (P2R, R2P, UP2UR, UR2UP)."""
    mask = parts[-1].value if parts and isinstance(parts[-1], Immediate) else 0x7F
    uniform = any(isinstance(part, Other) and part.text == "UPR" for part in parts)
    return [f"{'UP' if uniform else 'P'}{n}" for n in range(7) if mask >> n & 1]


def _results_end(opcode: str, parts: tuple[Operand, ...]) -> int:
    """Returns how many of the first operands are results: predicates and one register, or a register and predicates.

    Fetches of textures, and loads of 256 bits, have two registers, each the first of some.
    """
    if not parts:
        return 0
    base, *suffixes = opcode.split(".")
    if base in ("ISETP", "UISETP", "FSETP", "DSETP", "HSETP2", "PLOP3", "UPLOP3", "PSETP", "FCHK", "HSETP", "VSETP", "BSETP"):
        return 2 if len(parts) > 1 and is_predicate(parts[1]) and base != "FCHK" else 1
    if base in ("VOTE", "VOTEU", "UVOTE") and is_predicate(parts[0]):
        return 1
    end = 0
    while end < len(parts) and is_predicate(parts[end]):
        end += 1
    if (base in _TEXTURES or "256" in suffixes) and all(map(_is_data, parts[end : end + 2])):
        return end + 2
    if end < len(parts) and _is_data(parts[end]):
        end += 1
        if base in _WITH_PREDICATES_BEHIND:
            while end < len(parts) and is_predicate(parts[end]) and not getattr(parts[end], "negative", False):
                end += 1
        elif base in ("VOTE", "VOTEU", "UVOTE"):  # the last predicate is what is voted on
            end = len(parts) - 1
    return max(end, 1)


def is_predicate(part: Operand) -> bool:
    """Returns whether an operand is a predicate."""
    return isinstance(part, Register) and part.name.lstrip("U").startswith("P")


def _is_data(part: Operand) -> bool:
    return isinstance(part, Register) and not is_predicate(part)


def _of_pairs(suffixes: list[str]) -> bool:
    """Returns whether an integer instruction, or a load of 8 bytes, is about values of 64 bits."""
    return not {"64", "U64", "S64"}.isdisjoint(suffixes)


_TEXTURES = ("TEX", "TLD", "TLD4", "TXD")
_OF_PAIRS = ("IADD", "IADD3", "MOV", "SEL", "ISETP", "LOP3", "SHL", "IMNMX")


def _read_by(part: Operand, opcode: str, base: str, is_last: bool) -> list[str]:
    if isinstance(part, Address):
        return [name for term, _ in part.terms for name in registers_of(term.name, 2 if term.pair else 1)]
    if isinstance(part, Constant):
        return [*registers_of(part.index.name, 1)] if part.index else []
    if not isinstance(part, Register):
        return []
    if is_predicate(part):
        return [*registers_of(part.name, 1)]
    count = 2 if part.pair else 1
    if base.startswith("ST") or base in ("RED", "REDG", "ATOM", "ATOMG", "ATOMS"):
        count = 4 if ".128" in opcode else 2 if ".64" in opcode else 1
    elif base in ("DADD", "DMUL", "DFMA", "DSETP") or (base.removeprefix("U") in _OF_PAIRS and _of_pairs(opcode.split("."))):
        count = 2
    elif base.removeprefix("U") == "IMAD" and is_last and ("WIDE" in opcode or "HI" in opcode):
        count = 2
    elif base in ("HMMA", "IMMA", "DMMA"):
        count = 4 if is_last and "F32" in opcode else 2
    return [*registers_of(part.name, count)]


@lru_cache(maxsize=65536)
def registers_of(name: str, count: int) -> tuple[str, ...]:
    """Returns the names of consecutive registers; none for those that always hold the same."""
    if name in ZERO or name in TRUE:
        return ()
    found = re.match(r"(\D+)(\d+)$", name)
    return tuple(f"{found[1]}{int(found[2]) + k}" for k in range(count)) if found else ()


@lru_cache(maxsize=65536)
def _slots(opcode: str, text: str) -> tuple[str, ...]:
    parts = operands(text)
    base = opcode.partition(".")[0]
    texts = [part.strip() for part in _NOTE.sub("", text).strip().split(",")]
    sources = range(0 if base in _WITHOUT_RESULT else _results_end(opcode, parts), len(parts))
    found: list[str] = []
    for place in sources:
        part = parts[place]
        if is_predicate(part) or len(found) == OPERAND_SLOTS:
            continue
        name = part.name if isinstance(part, Register) and part.name not in ZERO and not part.name.startswith("U") else ""
        if name and base.endswith("GMMA"):
            sums = parts[0].name if isinstance(parts[0], Register) else ""
            if place == 1:
                name = f"{name}:{_LEFT_MATRIX}"
            elif name == sums:  # which begin with 0 under this predicate
                name = "" if any(text.startswith("!UPT") for text in texts) else f"{name}:{written_count(opcode)}"
        found.append(f"{name}.reuse" if name and ":" not in name and ".reuse" in texts[place] else name)
    return tuple(found) if any(found) else ()


def register_slots(one: MachineInstruction) -> tuple[str, ...]:
    """Returns the machine registers in the operand slots of an instruction, such as ("R2", "", "R4.reuse"); "" is none.

    Slots are the source operands in order, predicates left out. Of an operand of several registers the first one stands there,
    but for products of warp groups, such as ("R88:4", "", "R24:32"): they read 4 registers from R88 on, and 32 sums.
    """
    return _slots(one.opcode, one.operands)


def written_count(opcode: str) -> int:
    """Returns the number of consecutive registers of a result."""
    return _written_count(opcode, False)


def written(one: MachineInstruction) -> tuple[str, ...]:
    """Returns the registers and predicates that an instruction writes."""
    return _effects(one.opcode, one.operands, one.guard)[0]


def read(one: MachineInstruction) -> tuple[str, ...]:
    """Returns the registers and predicates that an instruction reads, with its guard."""
    return _effects(one.opcode, one.operands, one.guard)[1]


def stack_words(one: MachineInstruction) -> tuple[str, ...]:
    """Returns names for the words of the stack to which an instruction spills registers, or from which it refills them.

    The compiler marks these accesses, and nothing else accesses the words. They are at fixed places of a function's frame.
    """
    if _SPILL not in one.operands or one.base not in ("STL", "LDL") or {"U8", "S8", "U16", "S16"} & set(one.opcode.split(".")):
        return ()
    (where,) = addresses(one)
    if [term.name for term, _ in where.terms] != [STACK_POINTER]:
        return ()
    count = 4 if ".128" in one.opcode else 2 if ".64" in one.opcode else 1
    return tuple(f"stack+{where.offset + 4 * k:#x}" for k in range(count))


def spilled_words(one: MachineInstruction) -> tuple[str, ...]:
    """Returns names for the words of the stack to which an instruction spills registers."""
    return stack_words(one) if one.base == "STL" else ()


def refilled_words(one: MachineInstruction) -> tuple[str, ...]:
    """Returns names for the words of the stack from which an instruction refills registers."""
    return stack_words(one) if one.base == "LDL" else ()


def guard_of(one: MachineInstruction) -> Register | None:
    """Returns the predicate under which an instruction is executed; None: always."""
    if one.guard in ("", "@PT", "@UPT"):
        return None
    return Register(one.guard.lstrip("@!"), negative="!" in one.guard)


def conditions(one: MachineInstruction) -> list[Register]:
    """Returns the predicates that must all hold for a jump or an exit: its guard, and those among its operands."""
    guard = guard_of(one)
    found = [guard] if guard else []
    if one.base in ("BRA", "JMP", "CALL", "RET", "EXIT"):
        for text in re.findall(r"!?\bU?P\d\b", one.operands.partition("`")[0]):
            found.append(Register(text.lstrip("!"), negative=text.startswith("!")))
    return found


def calls_outside(one: MachineInstruction) -> bool:
    """Returns whether an instruction calls a function that the binary does not hold: it names no place in the code."""
    return one.base == "CALL" and "`" not in one.operands


@dataclass(frozen=True)
class Table:
    """A jump through a table: the register with what the table holds, and what is added to that, and to the next address."""

    name: str
    offset: int


def table_of(one: MachineInstruction) -> Table | None:
    """Returns what a jump through a table depends on; None of other instructions."""
    found = _OPERANDS_OF_TABLE.match(one.operands) if one.base in ("BRX", "BRXU") else None
    return None if found is None else Table(found[1], int(found[2], 16))
