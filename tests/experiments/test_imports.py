"""Every script of the experiments finds what it imports, also those that only figures of a README need."""

import subprocess
import sys
from pathlib import Path

from warpsim.cli.experiment import experiments_dir

FOLDER = Path(experiments_dir())
IMPORTS = """
import importlib, sys
sys.path[:0] = ["", sys.argv[1]]
for folder, *names in (line.split() for line in sys.stdin):
    sys.path[0] = folder
    for name in names:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name != "triton":  # which is the user's own installation
                raise
    for name in names:  # modules of several experiments have one name
        sys.modules.pop(name, None)
"""


def test_scripts_are_imported():
    scripts = {folder: sorted(script.stem for script in folder.glob("*.py")) for folder in sorted(FOLDER.iterdir())}
    found = {folder: names for folder, names in scripts.items() if names}
    assert len(found) > 10
    lines = "".join(" ".join((str(folder), *names)) + "\n" for folder, names in found.items())
    command = [sys.executable, "-W", "ignore", "-c", IMPORTS, str(FOLDER)]
    ran = subprocess.run(command, input=lines, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
