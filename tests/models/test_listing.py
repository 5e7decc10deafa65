"""What all models have in common: names, arguments, results, and the page on them."""

from __future__ import annotations

import math
import pydoc
import re
from pathlib import Path

import numpy as np
import pytest

from warpsim import kernels, models
from warpsim.hardware.gpu import load_gpu
from warpsim.models import NotCoveredError


def test_every_name_is_a_model():
    assert len(set(models.NAMES)) == len(models.NAMES) == 13
    page = pydoc.render_doc(models, renderer=pydoc.plaintext)
    for name in models.NAMES:
        module = getattr(models, name)
        assert module is models.load(name)
        assert callable(module.throughput)
        assert name in dir(models)
        assert name in page


def test_help_lists_models_and_no_helper_packages():
    page = pydoc.render_doc(models, renderer=pydoc.plaintext)
    listed = {word for section in ("PACKAGE CONTENTS", "SUBMODULES") if section in page
              for word in page.split(section)[1].split("\n\n")[0].replace("(package)", "").split()}  # fmt: skip
    assert listed == set(models.NAMES)


def test_every_model_broadcasts_and_names_its_results_alike():
    for name in models.NAMES:
        model = models.load(name)
        program = kernels.chain("load") if name == "littles_law" else kernels.mix(8)  # which covers one kind at a time
        ds = model.throughput(load_gpu("fermi"), program, warps=[1, 2, 48])
        assert ds.ipc.dims == ("warps", "op"), name
        assert ds.bandwidth.dims == ("warps",), name
        np.testing.assert_allclose(ds.throughput, 32 * ds.ipc)
        assert name in ds.attrs["source"]


def test_the_page_of_the_models_is_complete():
    page = (Path(__file__).parents[2] / "docs" / "models.md").read_text(encoding="utf-8")
    rows = {cells[1].strip(" `"): cells[3] for cells in (line.split("|") for line in page.splitlines()) if len(cells) == 6}
    assert sorted(rows.keys() - {"model", "---"}) == sorted(models.NAMES)
    for name in models.NAMES:
        said = {word.split("=")[0] for word in re.findall(r"`([a-z_0-9=]+)", rows[name])} - {"refined"}
        public = {f for f in ("needed_warps", "execution_time", "bottleneck") if hasattr(models.load(name), f)}
        assert public <= said, name
        assert all(hasattr(models.load(name), f) for f in said), name


def test_an_unknown_model():
    with pytest.raises(ValueError, match=r"name = 'best': must be one of .*volkov"):
        models.load("best")
    with pytest.raises(AttributeError, match="best"):
        models.best  # noqa: B018


def test_over_alpha():
    gpu = load_gpu("kepler")
    ds = models.over_alpha(models.volkov.throughput, gpu, [0, 1, math.inf], warps=[1, 64])
    assert ds.ipc.dims == ("alpha", "warps", "op")
    closed = models.volkov.mix_throughput(gpu, [0, 1, math.inf], [1, 64])
    np.testing.assert_allclose(ds.ipc, closed.ipc)
    needed = models.over_alpha(models.volkov.needed_warps, gpu, [0, 1], fraction=0.9)
    np.testing.assert_allclose(needed, models.volkov.mix_needed_warps(gpu, [0, 1], fraction=0.9))


@pytest.mark.parametrize("name", sorted({*models.NAMES} - {"roofline", "pipeline"}))  # the same at any; from 1 warp on
@pytest.mark.parametrize("program", [kernels.mix(8), kernels.chain("load"), kernels.listing_3_2("stores")], ids=lambda k: k.name)
def test_nothing_is_issued_without_warps_and_arrays_are_points(name, program):
    gpu, model = load_gpu("fermi"), models.load(name)
    try:
        over = model.throughput(gpu, program, warps=[0, 4, 8]).ipc.sum("op")
    except NotCoveredError:
        pytest.skip(f"{name} does not cover {program.name}")
    one_by_one = [model.throughput(gpu, program, warps=n).ipc.sum().item() for n in (0, 4, 8)]
    assert over.values.tolist() == pytest.approx(one_by_one, nan_ok=False)
    assert over[0] == 0 and over[1] > 0


def test_every_model_takes_names_and_arguments_of_the_builder():
    gpu = load_gpu("kepler")
    for name in models.NAMES:
        model = models.load(name)
        kernel, arguments = ("load_chain", {}) if name == "littles_law" else ("mix", {"alpha": 8})
        program = kernels.chain("load") if name == "littles_law" else kernels.mix(8)
        np.testing.assert_array_equal(
            model.throughput("Kepler", kernel, warps=[4, 8], **arguments).ipc, model.throughput(gpu, program, warps=[4, 8]).ipc
        )
        for other in ("needed_warps", "bottleneck"):
            if hasattr(model, other):
                given = {"warps": 8} if other == "bottleneck" else {}
                by_name = getattr(model, other)("kepler", kernel, **given, **arguments)
                assert by_name == getattr(model, other)(gpu, program, **given), name


def test_a_wrong_name_or_argument_of_a_model():
    with pytest.raises(ValueError, match="'keplr' is unknown"):
        models.volkov.throughput("keplr", "mix", warps=8)
    with pytest.raises(ValueError, match="'mixx' is unknown"):
        models.roofline.bottleneck("kepler", "mixx")
    with pytest.raises(ValueError, match="beta = 8: unknown"):
        models.volkov.needed_warps("kepler", "mix", beta=8)
    with pytest.raises(TypeError, match="beta"):
        models.volkov.needed_warps("kepler", kernels.mix(8), beta=8)
