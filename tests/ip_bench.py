"""What an IP core promises; what goes in and should come out is in a file.

The other side of streams and registers is cocotbext-axi, which knows nothing of this project.
"""

import itertools
import json
import logging
import os
import random
from pathlib import Path

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly, Timer
from cocotbext.axi import (
    AxiLiteBus,
    AxiLiteMaster,
    AxiResp,
    AxiStreamBus,
    AxiStreamSink,
    AxiStreamSource,
)

CASE = json.loads(Path(os.environ["IP_CASE"]).read_text())
FRAMES = [bytes.fromhex(text) for text in CASE["frames"]]
EXPECTED = [bytes.fromhex(text) for text in CASE["expected"]]
ADDRESS, CONSTANTS = CASE["addresses"], CASE["constants"]
WORD = CASE["word_bytes"]
CLEAR, RESET = 1, 2
MISFRAMED, BUSY = 1, 2


def pauses(seed, odds):
    chance = random.Random(seed)
    return (chance.random() < odds for _ in itertools.count())


class Around:
    """A core with everything that is around it, and somebody who watches."""

    def __init__(self, dut):
        self.dut = dut
        common = (dut.aclk, dut.aresetn, False)  # the reset is active low
        self.source = AxiStreamSource(AxiStreamBus.from_prefix(dut, "s_axis"), *common)
        self.sink = AxiStreamSink(AxiStreamBus.from_prefix(dut, "m_axis"), *common)
        self.master = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axi"), *common)
        for part in (self.source, self.sink, self.master.write_if, self.master.read_if):
            part.log.setLevel(logging.WARNING)
        self.begun = self.images = self.results = self.busy = self.stalled = 0
        self.words, self.given = 0, []

    async def start(self):
        Clock(self.dut.aclk, 10, unit="ns").start()
        self.dut.aresetn.value = 0
        for _ in range(3):
            await FallingEdge(self.dut.aclk)
        self.dut.aresetn.value = 1
        cocotb.start_soon(self.watch())

    async def watch(self):
        """Count, and see that what is offered and not taken does not change."""
        dut = self.dut
        offers = {
            (dut.m_axis_tvalid, dut.m_axis_tready): (dut.m_axis_tdata, dut.m_axis_tlast),
            (dut.s_axi_bvalid, dut.s_axi_bready): (dut.s_axi_bresp,),
            (dut.s_axi_rvalid, dut.s_axi_rready): (dut.s_axi_rdata, dut.s_axi_rresp),
        }
        waits = {}
        while True:
            await FallingEdge(dut.aclk)
            await ReadOnly()
            for (valid, ready), payload in offers.items():
                now = [int(each.value) for each in (valid, *payload)]
                assert waits.pop(valid, now) == now, f"{valid._name} was not kept"
                if now[0] and not int(ready.value):
                    waits[valid] = now
            self.busy += self.begun != self.results
            if int(dut.s_axis_tvalid.value) and int(dut.s_axis_tready.value):
                self.begun += self.words == 0
                self.words = (self.words + 1) % CONSTANTS["IMAGE_WORDS"]
                self.images += self.words == 0
            if int(dut.m_axis_tvalid.value):
                self.stalled += not int(dut.m_axis_tready.value)
            if int(dut.m_axis_tvalid.value) and int(dut.m_axis_tready.value):
                self.results += int(dut.m_axis_tlast.value)
                data = int(dut.m_axis_tdata.value)
                self.given.append(data.to_bytes(len(dut.m_axis_tdata) // 8, "little"))

    def pause(self, odds):
        """Let everybody wait at random, those who give and those who take."""
        master = self.master
        channels = (self.source, self.sink, master.write_if.aw_channel, master.write_if.w_channel)
        channels += (master.write_if.b_channel, master.read_if.ar_channel, master.read_if.r_channel)
        for seed, channel in enumerate(channels):
            channel.set_pause_generator(pauses(seed, odds) if odds else None)
            channel.pause = False

    async def read(self, name):
        answer = await self.master.read(ADDRESS[name], 4)
        assert answer.resp == AxiResp.OKAY
        return int.from_bytes(answer.data, "little")

    async def control(self, bits):
        assert (await self.master.write(ADDRESS["CONTROL"], bytes([bits]))).resp == AxiResp.OKAY

    async def counters(self):
        names = ("IMAGES_IN", "RESULTS_OUT", "BUSY_CYCLES", "STALL_CYCLES")
        return [await self.read(name) for name in names]

    async def expect(self, number):
        frame = await self.sink.recv()
        # Without a TKEEP a frame is whole words, and TLAST ends it.
        assert bytes(frame.tdata) == EXPECTED[number], f"result {number}"


async def run_images(around, numbers, odds):
    around.pause(odds)
    for number in numbers:
        around.source.send_nowait(FRAMES[number])
    for number in numbers:
        await around.expect(number)
    around.pause(0)
    await Timer(1, "us")
    assert around.sink.empty(), "a result too many"


@cocotb.test(timeout_time=500, timeout_unit="us")
@cocotb.parametrize(odds=[0.0, 0.5])
async def every_image_gives_its_result_and_is_counted(dut, odds):
    """Every image gives its result, and the counters say what happened."""
    around = Around(dut)
    await around.start()
    reader = cocotb.start_soon(read_on(around))
    await run_images(around, range(len(FRAMES)), odds)
    reader.cancel()
    await Timer(1, "us")
    counted = [around.images, around.results, around.busy, around.stalled]
    assert counted[:2] == [len(FRAMES)] * 2
    assert bool(counted[3]) == (odds > 0)
    assert await around.counters() == counted
    assert await around.read("STATUS") == 0
    await around.control(CLEAR)
    assert await around.counters() == [0] * 4
    await run_images(around, range(5), 0.3)
    after = [around.images, around.results, around.busy, around.stalled]
    difference = [b - a for a, b in zip(counted, after, strict=True)]
    assert await around.counters() == difference
    assert difference[:2] == [5, 5]


async def read_on(around):
    """Read while images run: it disturbs nothing, and a count never falls."""
    before = 0
    while True:
        now = await around.read("IMAGES_IN")
        assert before <= now <= len(FRAMES)
        before = now


@cocotb.test(timeout_time=500, timeout_unit="us")
async def a_tlast_out_of_place_is_told_until_reset(dut):
    around = Around(dut)
    await around.start()
    for tlast in ("early", "missing"):
        if tlast == "early":
            sent = [FRAMES[0], FRAMES[1][:WORD], FRAMES[1][WORD:]]
        else:
            sent = [FRAMES[0] + FRAMES[1]]
        assert await around.read("STATUS") == 0
        for frame in sent:
            await around.source.send(frame)
        for number in (0, 1):
            await around.expect(number)
        await Timer(200, "ns")
        assert await around.read("STATUS") == MISFRAMED
        await around.control(CLEAR)
        assert await around.read("STATUS") == MISFRAMED
        await around.control(RESET)
    await run_images(around, range(4), 0.3)
    assert await around.read("STATUS") == 0


@cocotb.test(timeout_time=500, timeout_unit="us")
async def reset_by_software_forgets_what_is_inside(dut):
    """In mid-image and with results that wait: the next word is the first of an image."""
    around = Around(dut)
    await around.start()
    chance, kept = random.Random(3), 0
    for _ in range(20):
        around.sink.pause = True
        sent = chance.randrange(3)
        for number in range(sent):
            await around.source.send(FRAMES[number])
        part = WORD * chance.randrange(1, len(FRAMES[3]) // WORD)
        await around.source.send(FRAMES[3][:part])
        # So few that none is held up: a word that is offered would be the next image's first.
        await around.source.wait()
        await Timer(10 * chance.randrange(1, 60), "ns")
        assert await around.read("STATUS") & BUSY
        await around.control(RESET)
        around.sink.pause = False
        while await around.read("STATUS") & BUSY:
            pass
        # What lay at the output comes whole, and no more than two results lie there.
        left = around.sink.count()
        assert left <= min(sent, 2)
        for number in range(left):
            await around.expect(number)
        kept += left
        assert await around.read("STATUS") == 0
        await run_images(around, range(5), 0.3)
    assert kept, "no result waited at a reset"


@cocotb.test(timeout_time=500, timeout_unit="us")
async def registers_say_what_the_core_is(dut):
    around = Around(dut)
    await around.start()
    for odds in (0, 0.5):
        around.pause(odds)
        for name, value in CONSTANTS.items():
            assert await around.read(name) == value, name
    assert await around.read("CONTROL") == 0


@cocotb.test(timeout_time=500, timeout_unit="us")
async def no_other_address_answers(dut):
    around = Around(dut)
    await around.start()
    mapped = set(ADDRESS.values())
    writable = {ADDRESS["CONTROL"], ADDRESS["SCRATCH"]}
    near = [*range(0, max(mapped) + 64, 4), 0x100, 0x400, 0x7FC, 0x800, 0xFFC]
    for address in near:
        answer = await around.master.read(address, 4)
        assert (answer.resp == AxiResp.OKAY) == (address in mapped), hex(address)
        if address not in mapped:
            assert answer.resp == AxiResp.SLVERR
            assert answer.data == bytes(4)
        refused = await around.master.write(address, bytes(4))
        expected = AxiResp.OKAY if address in writable else AxiResp.SLVERR
        assert refused.resp == expected, hex(address)
    for address in mapped - writable:
        await around.master.write(address, b"\xff" * 4)
    for name, value in CONSTANTS.items():
        assert await around.read(name) == value, name


@cocotb.test(timeout_time=500, timeout_unit="us")
async def bytes_are_written_one_by_one_in_any_order_of_address_and_data(dut):
    around = Around(dut)
    await around.start()
    scratch, chance, held = ADDRESS["SCRATCH"], random.Random(5), bytearray(4)
    write = around.master.write_if
    late = (write.aw_channel, write.w_channel, write.b_channel)
    for turn in range(120):
        if turn % 10 == 0:
            for channel in late:
                channel.set_pause_generator(None)
                channel.pause = False
            choice = turn // 10 % 5
            if choice < 3:
                late[choice].set_pause_generator(pauses(turn, 0.8))
            elif choice == 3:
                around.pause(0.5)
        first = chance.randrange(4)
        data = chance.randbytes(chance.randrange(1, 5 - first))
        await around.master.write(scratch + first, data)
        held[first : first + len(data)] = data
        assert await around.read("SCRATCH") == int.from_bytes(held, "little"), turn
    # Only the lowest byte of CONTROL does anything.
    await around.master.write(ADDRESS["CONTROL"] + 1, b"\xff\xff\xff")
    await around.source.send(FRAMES[0])
    await around.expect(0)
    await around.master.write(ADDRESS["CONTROL"] + 1, b"\xff\xff\xff")
    assert (await around.counters())[:2] == [1, 1]


@cocotb.test(timeout_time=500, timeout_unit="us")
async def reads_do_not_wait_for_writes(dut):
    around = Around(dut)
    await around.start()
    around.master.write_if.b_channel.pause = True
    stuck = cocotb.start_soon(around.master.write(ADDRESS["SCRATCH"], b"abcd"))
    for _ in range(5):
        assert await around.read("ID") == CONSTANTS["ID"]
    assert not stuck.done()
    around.master.write_if.b_channel.pause = False
    assert (await stuck).resp == AxiResp.OKAY
    around.master.read_if.r_channel.pause = True
    stuck = cocotb.start_soon(around.master.read(ADDRESS["SCRATCH"], 4))
    for text in (b"efgh", b"ijkl"):
        assert (await around.master.write(ADDRESS["SCRATCH"], text)).resp == AxiResp.OKAY
    assert not stuck.done()
    around.master.read_if.r_channel.pause = False
    assert (await stuck).data == b"abcd"


@cocotb.test(timeout_time=500, timeout_unit="us")
async def no_output_follows_an_input_within_a_cycle(dut):
    Clock(dut.aclk, 10, unit="ns").start()
    inputs = [getattr(dut, name) for name in CASE["inputs"] if name not in ("aclk", "aresetn")]
    outputs = [getattr(dut, name) for name in CASE["outputs"]]
    chance, seen = random.Random(9), set()
    dut.aresetn.value = 0
    for each in inputs:
        each.value = 0
    for _ in range(3):
        await FallingEdge(dut.aclk)
    dut.aresetn.value = 1
    for _ in range(400):
        await FallingEdge(dut.aclk)
        before = [int(each.value) for each in outputs]
        for each in inputs:
            each.value = chance.getrandbits(len(each))
        await Timer(1, "ns")
        assert [int(each.value) for each in outputs] == before
        seen.add(tuple(before))
    assert len(seen) > 20


async def offer_all(dut):
    """Send images, a write and a read, and take nothing: return once everything is offered."""
    Clock(dut.aclk, 10, unit="ns").start()
    dut.aresetn.value = 0
    for name in CASE["inputs"]:
        if name not in ("aclk", "aresetn"):
            getattr(dut, name).value = 0
    for _ in range(3):
        await FallingEdge(dut.aclk)
    dut.aresetn.value = 1
    dut.s_axi_awaddr.value = dut.s_axi_araddr.value = ADDRESS["SCRATCH"]
    dut.s_axi_wdata.value, dut.s_axi_wstrb.value = 0x12345678, 15
    asked = (dut.s_axi_awvalid, dut.s_axi_wvalid, dut.s_axi_arvalid, dut.s_axis_tvalid)
    offered = (dut.m_axis_tvalid, dut.s_axi_bvalid, dut.s_axi_rvalid)
    for each in asked:
        each.value = 1
    for _ in range(2000):
        await FallingEdge(dut.aclk)
        if all(int(each.value) for each in offered):
            return offered
    raise AssertionError([each._name for each in offered if not int(each.value)])


@cocotb.test(timeout_time=500, timeout_unit="us")
async def valid_does_not_wait_for_ready(dut):
    offered = await offer_all(dut)
    for _ in range(50):
        await FallingEdge(dut.aclk)
        assert all(int(each.value) for each in offered)


@cocotb.test(timeout_time=500, timeout_unit="us")
async def reset_is_synchronous_and_active_low(dut):
    offered = await offer_all(dut)
    # Between two edges of the clock it does nothing.
    dut.aresetn.value = 0
    await Timer(2, "ns")
    assert all(int(each.value) for each in offered)
    dut.aresetn.value = 1
    await FallingEdge(dut.aclk)
    assert all(int(each.value) for each in offered)
    # One edge is enough, and nothing is offered as long as it is low, whatever the others offer.
    dut.aresetn.value = 0
    for _ in range(20):
        await FallingEdge(dut.aclk)
        assert not any(int(each.value) for each in offered)
    around = Around(dut)
    await around.start()
    assert await around.counters() == [0, 0, 0, 0]
    assert await around.read("SCRATCH") == 0
    assert await around.read("STATUS") == 0
    await run_images(around, range(4), 0.3)
