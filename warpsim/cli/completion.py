"""warpsim completion: prints a script that completes commands, options and names in a shell."""

from __future__ import annotations

import argparse

from warpsim.cli.common import DONE, CommandParser, Commands, new_command

SHELLS = ("bash", "zsh", "fish")

_EPILOG = """\
Add one of these lines to the start-up file of the shell:

  bash: eval "$(warpsim completion bash)"     in ~/.bashrc
  zsh:  eval "$(warpsim completion zsh)"      in ~/.zshrc, after `autoload -Uz compinit; compinit`
  fish: warpsim completion fish | source      in ~/.config/fish/config.fish
"""


def add(commands: Commands) -> None:
    """Adds the command."""
    parser = new_command(commands, "completion", _run, "print a script that completes warpsim's commands in a shell")
    parser.add_argument("shell", choices=SHELLS, help="the shell")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG


def _run(options: argparse.Namespace) -> int:
    print(script(options.program, options.shell))
    return DONE


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    """Returns the completion script of a parser for one of SHELLS."""
    import shtab

    common, own = _words()
    paths = {"plan": shtab.FILE, "output": shtab.FILE, "out": shtab.DIRECTORY, "scratch": shtab.DIRECTORY}
    for name, command in _commands(parser):
        command.add_pending_options()
        words = common | own.get(name, {})
        for action in command._actions:
            if words.get(action.dest):
                action.choices = words[action.dest]
            elif action.dest in paths:
                action.complete = paths[action.dest]  # type: ignore[attr-defined] # read by shtab
    return str(shtab.complete(parser, shell))


def _words() -> tuple[dict[str, list[str]], dict[str, dict[str, list[str]]]]:
    """Returns the possible words of arguments by their destination: of all commands, and of some commands alone."""
    from warpsim.cli.experiment import experiment_names
    from warpsim.hardware.gpu import list_gpus
    from warpsim.kernels import list_kernels
    from warpsim.simulation.point import MEMORY_MODELS
    from warpsim.simulation.policies import POLICIES
    from warpsim.views.plots import KINDS

    gpus, kernels = list_gpus(), list_kernels()
    common = {
        "gpu": gpus, "kernel": kernels, "scheduler": list(POLICIES), "memory": list(MEMORY_MODELS), "kind": list(KINDS),
    }  # fmt: skip
    named = {"gpus": gpus, "kernels": kernels, "experiment": experiment_names()}
    return common, {**{command: {"name": words} for command, words in named.items()}, "import": {"kernel": []}}


def _commands(parser: argparse.ArgumentParser) -> list[tuple[str, CommandParser]]:
    """Returns the commands and their parsers."""
    subparsers = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return [named for action in subparsers for named in action.choices.items()]
