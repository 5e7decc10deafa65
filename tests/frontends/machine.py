"""Short listings of machine code for tests, written line by line."""

from warpsim.frontends.sass import parse_listing


def function(*rows, arch=80, parameters="0x160 0:8:x 8:4:n"):
    """A machine function; each row is an instruction, with control fields "wait:read:write:yield:stall" where they matter."""
    lines = []
    for row in rows:
        plain = row.strip()
        has_control = plain.count(":") >= 4 and plain[2:3] == ":"
        lines.append(plain if plain.endswith(":") or plain.startswith(".") or has_control else f"--:-:-:-:1 {plain}")
    head = f".target sm_{arch}\n.function f\n.registers 16\n.parameters {parameters}\n.source f.cu\n"
    return parse_listing(head + "\n".join(lines) + "\n")[0]
