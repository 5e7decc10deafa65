"""warpsim completion: the scripts, run by the shells that are installed."""

import os
import shutil
import subprocess
import sys

import pytest

from warpsim import cli
from warpsim.hardware.gpu import list_gpus

BASH = """
source {script}
complete_words() {{
    COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${{#COMP_LINE}}; COMPREPLY=()
    _shtab_warpsim; printf '%s\\n' "${{COMPREPLY[@]}}"
}}
complete_words {words}
"""
FISH = "source {script}; complete --do-complete {line}"
ZSH = """autoload -Uz compinit; compinit -D -u; eval "$(cat {script})"; echo "$_comps[warpsim]" """


@pytest.fixture
def script(tmp_path, capsys):
    def write(shell):
        assert cli.main(["completion", shell]) == 0
        file = tmp_path / f"warpsim.{shell}"
        file.write_text(capsys.readouterr().out)
        return file

    return write


def run(shell, code, folder):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    # An empty home keeps the user's settings away; the script of fish looks for the program.
    environment = {**os.environ, "HOME": str(folder), "PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"}
    done = subprocess.run([shell, "-c", code], env=environment, cwd=folder, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return {line.partition("\t")[0].strip() for line in done.stdout.splitlines()}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["sim"], {"simulate"}),
        (["simulate", "--bl"], {"--block-warps", "--blocks"}),
        (["simulate", "--gpu", ""], set(list_gpus())),
        (["simulate", "--scheduler", "g"], {"gto", "gty", "grr"}),
        (["plot", "--kind", "needed"], {"needed-warps"}),
        (["experiment", "cu"], {"cusp"}),
        (["gpus", "h1"], {"h100", "h100_pcie"}),
        (["kernels", "vab"], {"vabs"}),
        (["sweep", "pl"], {"plan.toml"}),
    ],
)
@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_completions(script, tmp_path, shell, words, expected):
    file = script(shell)
    (tmp_path / "plan.toml").touch()
    quoted = " ".join(f"'{word}'" for word in ["warpsim", *words])
    line = "'" + " ".join(["warpsim", *words]) + "'"
    code = BASH.format(script=file, words=quoted) if shell == "bash" else FISH.format(script=file, line=line)
    assert run(shell, code, tmp_path) == expected


def test_zsh_registers_the_script(script, tmp_path):
    file = script("zsh")
    assert run("zsh", ZSH.format(script=file), tmp_path) == {"_shtab_warpsim"}
    assert "needed-warps" in file.read_text()


def test_the_help_has_a_line_for_each_shell(capsys):
    with pytest.raises(SystemExit):
        cli.main(["completion", "--help"])
    text = capsys.readouterr().out
    for shell in ("bash", "zsh", "fish"):
        assert f"  {shell}: " in text and f"warpsim completion {shell}" in text
    assert "compinit" in text


def test_another_shell_is_refused(capsys):
    with pytest.raises(SystemExit) as done:
        cli.main(["completion", "csh"])
    assert done.value.code == 2
    assert "invalid choice: 'csh'" in capsys.readouterr().err
