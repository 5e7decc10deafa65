"""Triton functions as users write them: streams, rows, products of matrices, attention, random numbers, scans."""

import triton
import triton.language as tl


@triton.jit
def add(x, y, out, n, block: tl.constexpr):
    """Adds two arrays."""
    i = tl.program_id(0) * block + tl.arange(0, block)
    inside = i < n
    tl.store(out + i, tl.load(x + i, mask=inside) + tl.load(y + i, mask=inside), mask=inside)


@triton.jit
def gelu(x, out, n, block: tl.constexpr):
    """The activation of transformers, by the error function."""
    i = tl.program_id(0) * block + tl.arange(0, block)
    value = tl.load(x + i, mask=i < n).to(tl.float32)
    tl.store(out + i, (0.5 * value * (1.0 + tl.math.erf(value * 0.7071067811865476))).to(tl.float16), mask=i < n)


@triton.jit
def dropout(x, out, n, seed, block: tl.constexpr):
    """Drops half of the values, by random numbers of Philox."""
    i = tl.program_id(0) * block + tl.arange(0, block)
    value = tl.load(x + i, mask=i < n)
    tl.store(out + i, tl.where(tl.rand(seed, i) > 0.5, value * 2.0, 0.0), mask=i < n)


@triton.jit
def softmax(x, out, columns, block: tl.constexpr):
    """The softmax of each row, which a program holds in registers."""
    i = tl.arange(0, block)
    row = tl.program_id(0) * columns
    value = tl.load(x + row + i, mask=i < columns, other=-float("inf"))
    value = tl.exp(value - tl.max(value, axis=0))
    tl.store(out + row + i, value / tl.sum(value, axis=0), mask=i < columns)


@triton.jit
def layer_norm(x, out, weight, bias, columns, block: tl.constexpr):
    """Normalizes rows, of which a program reads pieces three times."""
    row = tl.program_id(0) * columns
    total = tl.zeros([block], dtype=tl.float32)
    for begin in range(0, columns, block):
        i = begin + tl.arange(0, block)
        total += tl.load(x + row + i, mask=i < columns, other=0.0)
    mean = tl.sum(total, axis=0) / columns
    total = tl.zeros([block], dtype=tl.float32)
    for begin in range(0, columns, block):
        i = begin + tl.arange(0, block)
        value = tl.where(i < columns, tl.load(x + row + i, mask=i < columns, other=0.0) - mean, 0.0)
        total += value * value
    scale = 1 / tl.sqrt(tl.sum(total, axis=0) / columns + 1e-5)
    for begin in range(0, columns, block):
        i = begin + tl.arange(0, block)
        inside = i < columns
        value = (tl.load(x + row + i, mask=inside, other=0.0) - mean) * scale
        value = value * tl.load(weight + i, mask=inside) + tl.load(bias + i, mask=inside)
        tl.store(out + row + i, value, mask=inside)


@triton.jit
def cumulative_sum(x, out, columns, block: tl.constexpr):
    """Sums up each row from its beginning."""
    i = tl.arange(0, block)
    row = tl.program_id(0) * columns
    tl.store(out + row + i, tl.cumsum(tl.load(x + row + i, mask=i < columns, other=0.0), axis=0), mask=i < columns)


@triton.jit
def transpose(x, out, rows, columns, side: tl.constexpr):
    """Transposes a matrix in square tiles."""
    i = tl.program_id(0) * side + tl.arange(0, side)
    j = tl.program_id(1) * side + tl.arange(0, side)
    tile = tl.load(x + i[:, None] * columns + j[None, :])
    tl.store(out + j[:, None] * rows + i[None, :], tl.trans(tile))


@triton.jit
def total(x, out, n, block: tl.constexpr):
    """Sums up an array; each program adds its part to one word."""
    i = tl.program_id(0) * block + tl.arange(0, block)
    tl.atomic_add(out, tl.sum(tl.load(x + i, mask=i < n, other=0.0), axis=0))


@triton.jit
def matmul(a, b, c, m, n, k, block_m: tl.constexpr, block_n: tl.constexpr, block_k: tl.constexpr, grouped: tl.constexpr):
    """A product of matrices of halves, in groups of tiles of which L2 keeps the operands."""
    program = tl.program_id(0)
    across = tl.cdiv(n, block_n)
    group = program // (grouped * across)
    tall = min(tl.cdiv(m, block_m) - group * grouped, grouped)
    row = group * grouped + program % (grouped * across) % tall
    column = program % (grouped * across) // tall
    i, j, inner = row * block_m + tl.arange(0, block_m), column * block_n + tl.arange(0, block_n), tl.arange(0, block_k)
    left = a + i[:, None] * k + inner[None, :]
    right = b + inner[:, None] * n + j[None, :]
    tile = tl.zeros([block_m, block_n], dtype=tl.float32)
    for _ in range(0, tl.cdiv(k, block_k)):
        tile = tl.dot(tl.load(left), tl.load(right), tile)
        left += block_k
        right += block_k * n
    tl.store(c + i[:, None] * n + j[None, :], tile.to(tl.float16))


@triton.jit
def attention(q, k, v, out, length, scale, block_m: tl.constexpr, block_n: tl.constexpr, width: tl.constexpr):
    """Attention of one head for each program of the second dimension, without a matrix of scores in memory."""
    head = tl.program_id(1) * length * width
    i, d = tl.program_id(0) * block_m + tl.arange(0, block_m), tl.arange(0, width)
    query = tl.load(q + head + i[:, None] * width + d[None, :])
    largest = tl.full([block_m], -float("inf"), dtype=tl.float32)
    weight = tl.zeros([block_m], dtype=tl.float32)
    tile = tl.zeros([block_m, width], dtype=tl.float32)
    for begin in range(0, length, block_n):
        j = begin + tl.arange(0, block_n)
        scores = tl.dot(query, tl.load(k + head + j[None, :] * width + d[:, None])) * scale
        new = tl.maximum(largest, tl.max(scores, axis=1))
        scores = tl.exp2(scores - new[:, None])
        shrink = tl.exp2(largest - new)
        weight = weight * shrink + tl.sum(scores, axis=1)
        tile = tl.dot(scores.to(tl.float16), tl.load(v + head + j[:, None] * width + d[None, :]), tile * shrink[:, None])
        largest = new
    tl.store(out + head + i[:, None] * width + d[None, :], (tile / weight[:, None]).to(tl.float16))
