"""One form for networks that are the same, said otherwise; what they compute stays as it is."""

from dataclasses import replace

import numpy as np
import pytest
from random_networks import random_images, random_map_network, random_taps, random_xi
from random_residual import Graph, random_affine, random_residual_network, random_sign

from sbnn_hw.netlist import (
    INPUT,
    Affine,
    Concat,
    Conv2d,
    Edge,
    Encode,
    Flatten,
    Layer,
    Linear,
    MaxPool2d,
    Network,
    Scores,
    Stage,
    SumPool2d,
    Sums,
    Taps,
    Window,
    load,
    save,
    to_bytes,
)

SEEDS = range(40)


def same(one, two, rng):
    """Whether two networks give the same scores, and the same values where names are the same."""
    pixels = random_images(rng, one, 20)
    names = {s.name for s in one.stages} & {s.name for s in two.stages}
    a, b = (network.compute(pixels, keep=names) for network in (one, two))
    assert all((a.values[name] == b.values[name]).all() for name in names)
    return (a.scores == b.scores).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_the_canonical_form_computes_the_same_and_is_its_own(seed):
    rng = np.random.default_rng(seed)
    network = random_residual_network(rng)
    canonical = network.canonical
    assert same(network, canonical, rng)
    assert canonical.digest == network.digest
    assert to_bytes(canonical.canonical) == to_bytes(canonical)
    assert len(canonical.stages) <= len(network.stages)


def shuffled(rng, network):
    """Return the stages in another order in which each comes after its sources, renamed."""
    left, order = set(range(len(network.stages))), []
    while left:
        ready = [n for n in sorted(left) if not set(network.stages[n].sources) & left]
        if len(ready) > 1:
            ready = [n for n in ready if n != len(network.stages) - 1]
        order.append(int(rng.choice(ready)))
        left.remove(order[-1])
    number = {INPUT: INPUT, **{old: new for new, old in enumerate(order)}}
    stages = [
        replace(
            network.stages[old],
            name=f"stage{new}",
            sources=tuple(number[source] for source in network.stages[old].sources),
        )
        for new, old in enumerate(order)
    ]
    return replace(network, stages=tuple(stages))


def said_otherwise(rng, network):
    """Return a network of which many affines say the same in other words."""
    graph = Graph(network.input)
    at = {INPUT: INPUT}
    for number, stage in enumerate(network.stages):
        operation, sources = stage.operation, [at[source] for source in stage.sources]
        if isinstance(operation, Affine):
            operation, sources = reworded(rng, operation, sources)
        if isinstance(operation, SumPool2d) and rng.random() < 0.5:
            operation = longer(operation, graph.edges[sources[0]])
        at[number] = graph.add(operation, *sources)
        edge = graph.edges[at[number]]
        if not operation.scoring and rng.random() < 0.3:
            at[number] = graph.add(identity(rng, edge), at[number])
    return graph.finish()


def reworded(rng, affine, sources):
    by = int(rng.integers(0, 4))
    extra = rng.integers(0, 1 << by, affine.offsets.shape)
    changes = {"multipliers": affine.multipliers << by, "shift": affine.shift + by}
    if affine.slopes is None:
        changes["offsets"] = (affine.offsets << by) + extra
    else:
        more = int(rng.integers(0, 3))
        changes |= {
            "offsets": affine.offsets << by,
            "slopes": affine.slopes << more,
            "slope_shift": affine.slope_shift + more,
            "offsets_behind": (affine.offsets_behind << by + more) + extra,
        }
    affine = replace(affine, **changes)
    if len(sources) == 1 and rng.random() < 0.5:
        # The same source twice.
        part = rng.integers(-5, 6, affine.multipliers.shape)
        rows = np.concatenate([affine.multipliers - part, part])
        return replace(affine, multipliers=rows), [sources[0]] * 2
    if len(sources) == 2 and rng.random() < 0.5:
        return replace(affine, multipliers=affine.multipliers[::-1]), sources[::-1]
    return affine, sources


def longer(pool, edge):
    if all(size % stride == 0 and kernel == stride for size, stride, kernel in
           zip(edge.shape[:2], pool.window.stride, pool.window.kernel, strict=True)):  # fmt: skip
        return replace(pool, ceil=not pool.ceil)
    return pool


def identity(rng, edge):
    if len(edge.shape) == 3 and rng.random() < 0.3:
        return SumPool2d(Window((1, 1)), ceil=bool(rng.random() < 0.5))
    by = int(rng.integers(0, 3))
    return Affine(
        multipliers=np.full((1, edge.channels), 1 << by),
        offsets=rng.integers(0, 1 << by, edge.channels),
        shift=by,
        low=edge.low - int(rng.integers(0, 3)),
        high=edge.high + int(rng.integers(0, 3)),
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_said_otherwise_has_the_same_digest(seed):
    rng = np.random.default_rng(seed)
    network = random_residual_network(rng).canonical
    other = shuffled(rng, said_otherwise(rng, network))
    assert same(network, replace(other, stages=tuple(other.stages)), rng)
    assert other.digest == network.digest
    assert [s.operation.kind for s in other.canonical.stages] == [
        s.operation.kind for s in network.stages
    ]


def tail(graph, stream, classes=2):
    flat = graph.add(Flatten(), stream)
    wide = graph.edges[flat].size
    taps = Taps.from_dense(np.ones((classes, wide), int))
    weights = np.arange(1, len(taps.indices) + 1)
    graph.add(Scores(taps=taps, offsets=np.zeros(classes, int), weights=weights), flat)
    return graph.finish()


def test_equal_stages_are_one():
    rng = np.random.default_rng(0)
    graph = Graph(Edge.of_bits((3, 3, 2), 4, scan="raster"))
    one = random_affine(rng, graph.input, bits=4, slopes=False)
    left, right = graph.add(one, -1), graph.add(one, -1)
    join = Affine(multipliers=[[1, 2], [3, -2]], offsets=[0, 0], shift=0, low=-99, high=99)
    network = tail(graph, graph.add(join, left, right))
    first, second = network.canonical.stages[:2]
    assert first.operation.kind == second.operation.kind == "affine"
    assert second.sources == (0,)
    # What adds up to nothing is constant, whatever the source.
    assert second.operation.multipliers.tolist() == [[4, 0]]
    assert same(network, network.canonical, rng)


def test_of_equal_stages_what_either_is_read_for_is_built():
    graph = Graph(Edge.of_bits((3, 3, 2), 4, scan="raster"))
    one = Affine(multipliers=[[1, 3]], offsets=[0, 0], shift=1, low=-99, high=99)
    left, right = graph.add(one, -1), graph.add(one, -1)
    network = tail(graph, graph.add(Concat(2), left, right))
    first, second, *rest = network.stages
    stages = (replace(first, absent=[0, 1]), replace(second, absent=[1]), *rest)
    assert replace(network, stages=stages).canonical.stages[0].absent.tolist() == [1]


def test_a_source_that_is_multiplied_by_nothing_is_not_read():
    graph = Graph(Edge.of_bits((3, 3, 1), 4, scan="raster"))
    pooled = graph.add(MaxPool2d(Window((3, 3), (1, 1), (1, 1)), np.zeros(1, bool)), -1)
    join = Affine(multipliers=[[0], [3]], offsets=[1], shift=1, low=-99, high=99)
    network = tail(graph, graph.add(join, pooled, -1))
    assert [stage.operation.kind for stage in network.canonical.stages] == [
        "affine", "flatten", "scores",
    ]  # fmt: skip


def test_the_affine_has_the_least_shifts_and_the_narrowest_clamp():
    edge = Edge((2,), -8, 7)
    given = Affine(multipliers=[[4, 8]], offsets=[3, -3], shift=4, low=-100, high=100)
    found = given.simplified(edge)
    assert (found.multipliers.tolist(), found.offsets.tolist(), found.shift) == (
        [[1, 2]],
        [0, -1],
        2,
    )
    assert (found.low, found.high) == (-5, 3)
    sloped = replace(
        given, slopes=[6, 2], slope_shift=2, offsets_behind=[1, 3], multipliers=[[4, 8]],
        offsets=[4, 8],
    )  # fmt: skip
    found = sloped.simplified(edge)
    assert (found.slopes.tolist(), found.slope_shift) == ([3, 1], 1)
    assert (found.multipliers.tolist(), found.offsets.tolist(), found.shift) == (
        [[1, 2]],
        [1, 2],
        2,
    )
    assert found.offsets_behind.tolist() == [0, 0]
    # With an odd offset the sign of t needs every bit.
    odd = replace(sloped, offsets=[5, 8]).simplified(edge)
    assert (odd.shift, odd.multipliers.tolist()) == (4, [[4, 8]])
    # Where t is never negative a slope says nothing.
    positive = replace(sloped, offsets=[64, 64]).simplified(edge)
    assert positive.slopes is None
    assert positive.slope_shift == 0


def test_a_constant_bit_is_not_flipped():
    encode = Encode([[-4], [5], [0]], [[True], [True], [True]])
    found = encode.simplified(Edge((3,), -4, 4))
    assert found.thresholds.tolist() == [[5], [-4], [0]]
    assert found.flips.tolist() == [[False], [False], [True]]
    x = np.arange(-4, 5)[:, None].repeat(3, axis=1)
    edge = Edge((3,), -4, 4)
    assert (encode.compute(x, edge) == found.compute(x, edge)).all()


def test_what_schema_1_says_is_left_alone():
    network = random_map_network(np.random.default_rng(3))
    assert network.schema == 1
    assert network.canonical is network


# Sums, an affine and an encoder


def random_neurons(rng, *, linear=False):
    """Return sums of bits or small integers, an affine perhaps, and an encoder of their sign."""
    bits = int(rng.choice([1, 1, 3]))
    shape = (int(rng.integers(4, 9)),) if linear else (4, 5, 4)
    graph = Graph(Edge.of_bits(shape, bits, scan="vector" if linear else "raster"))
    channels, neurons = shape[-1], 4
    xi, k = random_xi(rng)
    window = None if linear else Window((3, 3), tuple(rng.integers(1, 3, 2)), (1, 1))
    wide = channels * (1 if linear else 9)
    border = "zero" if not linear and bits == 1 and rng.random() < 0.6 else "minus"
    fixed = [1] if xi and rng.random() < 0.4 else []
    allowed = np.flatnonzero(~np.isin(np.arange(wide) % channels, fixed))
    taps = random_taps(
        rng, neurons, wide, signed=not xi and rng.random() < 0.6, allowed=[allowed] * neurons
    )
    sums = Sums(
        taps=taps, channels=channels, window=window, xi=xi, k=k, border=border,
        fixed=np.array(fixed, np.int64),
    )  # fmt: skip
    stream = graph.add(sums, -1)
    if rng.random() < 0.8:
        affine = random_affine(rng, graph.edges[stream], bits=6)
        if affine.slopes is not None and rng.random() < 0.8:
            affine = replace(affine, slopes=np.abs(affine.slopes))
        stream = graph.add(affine, stream)
    edge = graph.edges[stream]
    encode = graph.add(random_sign(rng, edge), stream)
    end = encode if linear else graph.add(Flatten(), encode)
    wide = graph.edges[end].size
    taps = Taps.from_dense((rng.random((3, wide)) < 0.5).astype(int))
    graph.add(Scores(taps=taps, negative=False, shift=0, offsets=np.zeros(3, int)), end)
    return graph.finish()


def test_sums_with_a_threshold_are_neurons():
    made, left = {Conv2d: 0, Linear: 0}, 0
    for seed in range(150):
        rng = np.random.default_rng(seed)
        network = random_neurons(rng, linear=seed % 3 == 0)
        canonical = network.canonical
        assert same(network, canonical, rng)
        kind = type(canonical.stages[0].operation)
        if kind is Sums:
            slopes = canonical.stages[1].operation.slopes
            assert (slopes < 0).any()
            left += 1
            continue
        made[kind] += 1
        assert canonical.schema == 1
        assert {stage.operation.kind for stage in canonical.stages} <= {
            "conv2d", "linear", "flatten", "scores",
        }  # fmt: skip
        layer, edge = canonical.stages[0].operation, canonical.input
        # Thresholds are values that occur, or one above the greatest.
        low, high = layer.reach(edge)
        assert ((layer.thresholds >= low) & (layer.thresholds <= high + 1)).all()
    assert made[Conv2d] > 50
    assert made[Linear] > 25
    assert left > 3


@pytest.mark.parametrize("domain", ["zero", "signed", "bnn", "learned"])
def test_neurons_of_a_fold_come_back_from_their_sums(domain):
    """Taken apart into sums and encoders, a folded network has the digest that it had."""
    from random_models import random_convnet, random_mlp

    from sbnn_hw.train import fold_model

    apart = 0
    for seed, make in ((0, random_mlp), (1, random_mlp), *((n, random_convnet) for n in range(4))):
        model, shape = make(np.random.default_rng(seed), domain)
        network = fold_model(model, shape, drop_unread=False).network
        graph, at = Graph(network.input), {INPUT: INPUT}
        for number, stage in enumerate(network.stages):
            layer, source = stage.operation, at[stage.sources[0]]
            if not isinstance(layer, Layer) or len(layer.thresholds) > 1:
                at[number] = graph.add(layer, source)
                continue
            fields = {
                n: getattr(layer, n) for n in ("taps", "xi", "k", "fixed", "channels", "groups")
            }
            sums = Sums(**fields, window=getattr(layer, "window", None))
            edge = graph.edges[source]
            if sums.infer(edge).high < layer.reach(edge)[1].max():
                # Its windows never lie inside the map as a whole: more is constant than a fold knows.
                at[number] = graph.add(layer, source)
                continue
            sums = graph.add(sums, source)
            encode = Encode(layer.thresholds.T, layer.flips[:, None])
            at[number] = graph.add(encode, sums)
            apart += 1
        made = graph.finish()
        assert made.canonical.schema == 1
        assert made.digest == network.digest
    assert apart > 1


def test_sums_that_something_else_reads_stay():
    rng = np.random.default_rng(1)
    graph = Graph(Edge.of_bits((3, 3, 2), 1, scan="raster"))
    taps = random_taps(rng, 2, 18)
    sums = graph.add(Sums(taps=taps, channels=2, window=Window((3, 3), (1, 1), (1, 1))), -1)
    bits = graph.add(random_sign(rng, graph.edges[sums]), sums)
    network = tail(graph, graph.add(Concat(2), sums, bits))
    kinds = [stage.operation.kind for stage in network.canonical.stages]
    assert kinds == ["sums", "encode", "concat", "flatten", "scores"]


def test_the_file_keeps_names_and_order_and_tells_the_canonical_digest(tmp_path):
    rng = np.random.default_rng(5)
    network = shuffled(rng, said_otherwise(rng, random_residual_network(rng)))
    save(network, tmp_path / "net.sbnn")
    loaded = load(tmp_path / "net.sbnn")
    assert [s.name for s in loaded.stages] == [s.name for s in network.stages]
    assert loaded.digest == network.digest == network.canonical.digest
    assert to_bytes(loaded) == to_bytes(network)


def test_the_digest_tells_networks_apart():
    """Any other number of an affine, an encoder, sums or scores is another network."""

    def made(**changes):
        graph = Graph(Edge.of_bits((3, 3, 1), 4, scan="raster"))
        taps = Taps.from_dense(np.ones((1, 9), int))
        window = Window((3, 3), (1, 1), (1, 1))
        first = Sums(
            taps=taps, channels=1, window=window,
            weights=changes.get("weights", [1, 2, 3, 4, 5, 6, 7, 8, 9]), pad=changes.get("pad", [3]),
        )  # fmt: skip
        sums = graph.add(first, -1)
        affine = {
            "multipliers": [[3]], "offsets": [-900], "shift": 6, "low": -9, "high": 9,
            "slopes": [3], "slope_shift": 2, "offsets_behind": [1],
        }  # fmt: skip
        scale = Affine(**(affine | {k: v for k, v in changes.items() if k in affine}))
        stream = graph.add(scale, sums)
        bits = graph.add(
            Encode(changes.get("thresholds", [[1]]), changes.get("flips", [[False]])), stream
        )
        pool = SumPool2d(Window((2, 2), (2, 2)), ceil=changes.get("ceil", True))
        both = graph.add(Concat(2), stream, bits)
        return tail(graph, graph.add(pool, both))

    changes = [
        {}, {"weights": [1, 2, 3, 4, 5, 6, 7, 8, 10]}, {"pad": [4]}, {"multipliers": [[5]]},
        {"offsets": [-899]}, {"shift": 5}, {"low": -8}, {"high": 8}, {"slopes": [1]},
        {"slope_shift": 3}, {"offsets_behind": [2]}, {"thresholds": [[2]]}, {"flips": [[True]]},
        {"ceil": False},
    ]  # fmt: skip
    assert len({made(**change).digest for change in changes}) == len(changes)
    # Digests that stay: a change of the canonical form is a change of every network.
    assert made().digest == PINNED


PINNED = "fb803bb61d16664f147d4b9a53655abde48ee492d76ebfdd37d03a91e752675a"


def test_names_do_not_change_the_digest():
    rng = np.random.default_rng(9)
    network = random_residual_network(rng)
    renamed = [replace(stage, name=f"x{n}") for n, stage in enumerate(network.stages)]
    assert Network(network.input, tuple(renamed)).digest == network.digest
    assert isinstance(renamed[0], Stage)


def test_complements_stay_in_the_bits_they_are_taken_in():
    """Read once, the stream has fewer bits, and an inverted tap would read another number."""
    rng = np.random.default_rng(0)
    graph = Graph(Edge.of_bits((2, 2, 1), 3, scan="raster"))
    twice = Affine(multipliers=[[3], [-2]], offsets=[14], shift=0, low=0, high=99)
    stream = graph.add(twice, -1, -1)
    assert graph.edges[stream].bits > twice.once(["a", "a"])[0].infer(graph.input).bits
    flat = graph.add(Flatten(), stream)
    inverted = Sums(taps=Taps.from_dense(np.array([[-1, 1, 0, 1], [1, -1, -1, 0]])), channels=4)
    sums = graph.add(inverted, flat)
    taps = Taps.from_dense(np.array([[1, 0], [0, 1]]))
    graph.add(Scores(taps=taps, weights=[1, 1], offsets=[0, 0]), sums)
    network = graph.finish()
    assert same(network, network.canonical, rng)
    assert network.canonical.stages[0].sources == (INPUT, INPUT)
    assert network.canonical.digest == network.digest
