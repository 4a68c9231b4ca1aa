"""Threshold heaps: what they cost, and that they say what a sum would say."""

import random

import pytest

from sbnn_hw.cost.heap import lut_cost
from sbnn_hw.cost.prices import look_up_cost
from sbnn_hw.families import FAMILIES
from sbnn_hw.rtl_gen.build import add_up, gather_columns, look_up, reaches
from sbnn_hw.rtl_gen.logic import FALSE, TRUE, Logic

XC7, LUT4 = FAMILIES["xc7"], FAMILIES["ecp5"]


def cases(rng, inputs, count=256):
    """Return a word of bits for each input: every combination if there are few."""
    if inputs <= 10:
        return [
            sum((v >> i & 1) << v for v in range(1 << inputs)) for i in range(inputs)
        ], 1 << inputs
    return [rng.getrandbits(count) for _ in range(inputs)], count


def evaluate(logic, words, count, literals):
    values = logic.evaluate(words, logic.positive(literals), count)
    return [[value >> case & 1 for value in values] for case in range(count)]


def total(columns, words, case):
    return sum(
        ((words[(bit >> 1) - 1] >> case & 1) ^ bit & 1) << column
        for column, bits in enumerate(columns)
        for bit in bits
    )


def random_columns(rng, logic, counts, *, repeat):
    literals = [logic.input(n) ^ rng.randint(0, 1) for n in range(logic.inputs)]
    if repeat:
        literals = [rng.choice(literals) ^ rng.randint(0, 1) for _ in literals]
    rest = iter(literals)
    return [[next(rest) for _ in range(count)] for count in counts]


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("repeat", [False, True], ids=["distinct", "repeated"])
def test_a_heap_reaches_its_threshold_exactly_when_the_sum_does(name, repeat):
    rng = random.Random(name + str(repeat))
    for _ in range(250):
        counts = [rng.choice([0, 1, 2, 3, rng.randint(0, 14)]) for _ in range(rng.randint(1, 4))]
        if not sum(counts):
            continue
        logic = Logic(sum(counts))
        columns = random_columns(rng, logic, counts, repeat=repeat)
        most = sum(count << column for column, count in enumerate(counts))
        for threshold in {0, 1, rng.randint(0, most + 1), most, most + 1}:
            out = reaches(logic, columns, threshold, FAMILIES[name])
            words, count = cases(rng, logic.inputs)
            found = evaluate(logic, words, count, [out])
            for case in range(count):
                assert found[case] == [total(columns, words, case) >= threshold], (
                    counts,
                    threshold,
                )


@pytest.mark.parametrize("name", ["xc7", "ecp5"])
def test_a_sum_is_exact(name):
    rng = random.Random(name)
    for repeat in (False, True):
        for _ in range(200):
            counts = [
                rng.choice([0, 1, 2, 5, rng.randint(0, 20)]) for _ in range(rng.randint(1, 4))
            ]
            logic = Logic(max(1, sum(counts)))
            columns = random_columns(rng, logic, counts, repeat=repeat)
            constant = rng.randint(0, 20)
            bits = add_up(logic, columns, constant, FAMILIES[name])
            words, count = cases(rng, logic.inputs)
            for case, found in enumerate(evaluate(logic, words, count, bits)):
                value = sum(bit << n for n, bit in enumerate(found))
                assert value == constant + total(columns, words, case), (counts, constant)


def test_costs_are_those_that_are_known_to_be_reachable():
    costs = {n: max(lut_cost((n,), c, XC7) for c in range(1, n + 1)) for n in (6, 7, 13, 39, 64)}
    assert costs == {6: 1, 7: 2, 13: 6, 39: 22, 64: 39}


def test_one_table_is_enough_for_up_to_six_inputs():
    for n in range(2, 7):
        assert {lut_cost((n,), c, XC7) for c in range(1, n + 1)} == {1}
    assert lut_cost((1,), 1, XC7) == 0


def test_or_and_and_are_trees():
    for n in (7, 16, 36):
        assert lut_cost((n,), 1, XC7) == lut_cost((n,), n, XC7) == -(-(n - 1) // 5)
        assert lut_cost((n,), 1, LUT4) == -(-(n - 1) // 3)


def test_a_comparator_with_a_power_of_two_is_a_wire():
    assert lut_cost((1,) * 8, 128, XC7) == 0
    assert lut_cost((1,) * 8, 64, XC7) == 1
    assert lut_cost((1,) * 8, 255, XC7) == 2


def test_what_is_built_takes_as_many_tables_as_the_plan_says():
    from sbnn_hw.rtl_gen.parts.tables import Tables

    rng = random.Random(3)
    for name in ("xc7", "ecp5"):
        for _ in range(60):
            counts = (rng.randint(1, 40), *(rng.randint(0, 1) for _ in range(rng.randint(0, 5))))
            most = sum(count << column for column, count in enumerate(counts))
            threshold = rng.randint(1, most)

            def function(logic, bits, counts=counts, threshold=threshold, name=name):
                rest = iter(bits)
                columns = [[next(rest) for _ in range(count)] for count in counts]
                return [reaches(logic, columns, threshold, FAMILIES[name])]

            part = Tables(sum(counts), function, family=FAMILIES[name], levels_per_stage=3)
            # Sharing and pairing may save a table, nothing may add one.
            assert part.cost.tables <= lut_cost(counts, threshold, FAMILIES[name]), (
                counts,
                threshold,
            )


def test_thresholds_that_cannot_be_missed_or_reached_are_constants():
    logic = Logic(3)
    columns = [[logic.input(n) for n in range(3)]]
    assert reaches(logic, columns, 0, XC7) == TRUE
    assert reaches(logic, columns, 4, XC7) == FALSE
    assert len(logic) == 0


def test_repeated_and_complementary_bits_become_weights_and_constants():
    logic = Logic(2)
    a, b = logic.input(0), logic.input(1)
    columns, constant = gather_columns([(a, 1), (a, 1), (b, 1), (b ^ 1, 1), (TRUE, 4), (b, -2)])
    # a twice weighs two; b and its complement are one; minus two b is twice its complement less two.
    assert columns == [[], [a, b ^ 1]]
    assert constant == 1 + 4 - 2


def test_equal_tables_are_made_once_and_complements_are_free():
    logic = Logic(3)
    a, b, c = (logic.input(n) for n in range(3))
    first = logic.table(0b1000, [a, b])
    assert logic.table(0b1000, [b, a]) == first
    assert logic.table(0b0111, [a, b]) == first ^ 1
    assert logic.table(0b0010, [a, b]) == logic.table(0b1000, [a, b ^ 1])
    assert logic.table(0b11101000, [a, b, TRUE]) == logic.table(0b1110, [a, b])
    assert logic.table(0b10, [c]) == c
    assert len(logic) == 3


@pytest.mark.parametrize("name", FAMILIES)
def test_a_function_of_any_number_of_bits_is_looked_up(name):
    rng = random.Random(name)
    family = FAMILIES[name]
    for inputs in [*range(1, 11), 8, 8, 8]:
        logic = Logic(inputs)
        bits = [logic.input(n) ^ rng.randint(0, 1) for n in range(inputs)]
        answers = rng.getrandbits(1 << inputs)
        out = look_up(logic, answers, bits, family)
        tables = len(logic)
        words, count = cases(rng, inputs)
        found = evaluate(logic, words, count, [out])
        for case in range(count):
            place = sum(((words[n] >> case ^ bits[n]) & 1) << n for n in range(inputs))
            assert found[case] == [answers >> place & 1], (inputs, answers, case)
        assert tables <= look_up_cost(inputs, family)
        # Parts of six bits are hardly equal by chance.
        if family.inputs == 6 and inputs > 5:
            assert tables == look_up_cost(inputs, family)


@pytest.mark.parametrize(("inputs", "tables"), [(6, 1), (7, 3), (8, 5), (9, 11), (10, 21)])
def test_a_large_function_takes_as_few_tables_as_choices_of_four_allow(inputs, tables):
    assert look_up_cost(inputs, XC7) == tables


def test_what_a_function_does_not_depend_on_costs_nothing():
    logic = Logic(8)
    bits = [logic.input(n) for n in range(8)]
    half = random.Random(0).getrandbits(1 << 6)
    look_up(logic, sum(half << n * 64 for n in range(4)), bits, XC7)
    assert len(logic) == 1
