// Drives the two streams of a Verilated design, whole batches of beats in one call.
//
// `design.h`, which is written for each design, includes the Verilated header and defines
// IN_WIDTH, OUT_WIDTH (bits), PROBES, a list of {strobes, payload, width}, and WATCH: whether the
// changes of all public signals are counted. If the design was Verilated with a waveform, it also
// defines WAVES, the class that writes it. The functions at the end are all that Python sees. Rows
// of beats hold bit 0 in the lowest bit of their first byte, which is how Verilator stores every
// port, whatever its width, on a little-endian machine.
//
// The design sits in a bench (library.py) that has a register before each of its inputs, clocked
// by the same clock. So nothing but the rising edge changes anything: one evaluation a cycle, and
// half the C++ of a design whose inputs may change at any time.

#include "design.h"
#include "probes.h"

#include "verilated.h"
#include "verilated_sym_props.h"
#include "verilated_syms.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

// The runtime is compiled without its own vl_fatal, which would end the whole Python process.
void vl_fatal(const char* file, int line, const char*, const char* message) {
    throw std::runtime_error(std::string{file} + ":" + std::to_string(line) + ": " + message);
}

namespace {

constexpr std::size_t IN_BYTES = (IN_WIDTH + 7) / 8;
constexpr std::size_t OUT_BYTES = (OUT_WIDTH + 7) / 8;

// What Python asks for, and what it gets. The fields are the same, in the same order, in library.py.
struct Batch {
    const std::uint8_t* beats;
    std::uint64_t beat_count;
    std::uint8_t* outputs;
    std::uint64_t expect;
    std::uint64_t* taken_at;
    std::uint64_t* given_at;
    double valid_odds;
    double ready_odds;
    std::uint64_t limit;
    std::uint64_t taken;
    std::uint64_t given;
    std::uint64_t cycles;
    std::uint64_t violations;
};

// How often each bit of a signal has changed, from one cycle to the next.
struct Watched {
    std::string name;
    Signal signal;
    std::vector<std::uint8_t> last;
    std::vector<std::uint64_t> changes;

    Watched(const std::string& path, const std::uint8_t* data, std::size_t bits)
        : name{path}, signal{data}, last{data, data + (bits + 7) / 8}, changes(8 * last.size()) {}

    void sample() {
        const std::uint8_t* now = signal.data();
        if (!std::memcmp(last.data(), now, last.size())) return;
        for (std::size_t byte = 0; byte < last.size(); ++byte) {
            for (unsigned differ = last[byte] ^ now[byte]; differ; differ &= differ - 1) {
                ++changes[8 * byte + static_cast<std::size_t>(__builtin_ctz(differ))];
            }
        }
        std::memcpy(last.data(), now, last.size());
    }
};

// A waveform: every signal after each edge of the clock, which has a period of 10 ns there. It is a
// scale to count cycles by; no board's clock is meant.
class Waveform {
#ifdef WAVES
    std::unique_ptr<WAVES> m_file;
    std::uint64_t m_time = 0;

public:
    void open(VerilatedContext& context, Vdesign& design, const char* path) {
        context.timeunit(-9);
        context.timeprecision(-9);
        context.traceEverOn(true);
        m_file.reset(new WAVES);
        design.trace(m_file.get(), 99);
        m_file->open(path);
    }

    void dump() {
        if (m_file) m_file->dump(m_time);
        m_time += 5;
    }

    void close() {
        if (!m_file) return;
        // It closes itself if it cannot be written.
        const bool whole = m_file->isOpen();
        m_file->close();
        m_file.reset();
        if (!whole) throw std::runtime_error("waves: the file cannot be written");
    }
#else
public:
    void open(VerilatedContext&, Vdesign&, const char*) {
        throw std::runtime_error("waves: the design was compiled without");
    }
    void dump() {}
    void close() {}
#endif
};

class Simulation {
    std::unique_ptr<VerilatedContext> m_context{new VerilatedContext};
    std::unique_ptr<Vdesign> m_design{new Vdesign{m_context.get(), "TOP"}};
    Waveform m_waves;
    std::uint64_t m_random;
    std::uint64_t m_idle = 0;
    bool m_offering = false;
    bool m_held = false;  // The design offered a word in the last cycle, and it was not taken.
    std::uint8_t m_word[OUT_BYTES] = {};

public:
    std::vector<Probe> probes;
    std::vector<Watched> watched;
    std::string error;

    Simulation(std::uint64_t seed, std::uint64_t reset_cycles, const char* waves)
        : m_random{seed} {
        try {
            if (waves) m_waves.open(*m_context, *m_design, waves);
            m_design->clk = 0;
            m_design->next_rst = 1;
            m_design->eval();
            for (std::uint64_t cycle = 0; cycle < reset_cycles; ++cycle) tick();
            m_design->next_rst = 0;
            const std::vector<ProbeSpec> specs PROBES;
            for (const ProbeSpec& spec : specs) probes.emplace_back(*m_context, spec);
            if (WATCH) watch();
        } catch (const std::exception& stopped) {
            error = stopped.what();
        }
    }

    // Run until everything expected came, nothing moved for a while, or the budget is used up.
    bool run(Batch& batch, std::uint64_t budget) {
        for (; budget; --budget) {
            if (batch.given == batch.expect || m_idle >= batch.limit) {
                m_waves.close();
                return true;
            }
            step(batch);
        }
        return false;
    }

private:
    void tick() {
        m_design->clk = 1;
        m_design->eval();
        m_waves.dump();
        m_design->clk = 0;
        m_design->eval();
        m_waves.dump();
    }

    // SplitMix64: small, and good from any seed.
    bool chance(double odds) {
        if (odds >= 1.0) return true;
        std::uint64_t z = (m_random += 0x9e3779b97f4a7c15ULL);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
        return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53 < odds;
    }

    void step(Batch& batch) {
        Vdesign& design = *m_design;
        if (!m_offering && batch.taken < batch.beat_count && chance(batch.valid_odds)) {
            std::memcpy(&design.next_i_payload, batch.beats + batch.taken * IN_BYTES, IN_BYTES);
            m_offering = true;
        }
        design.next_i_valid = m_offering;
        design.next_o_ready = chance(batch.ready_odds);
        tick();

        // From here on everything is as it is just before the next rising edge.
        for (Probe& probe : probes) probe.sample();
        for (Watched& signal : watched) signal.sample();
        ++m_idle;
        if (design.i_valid && design.i_ready) {
            batch.taken_at[batch.taken++] = batch.cycles;
            m_offering = false;
            m_idle = 0;
        }
        const bool valid = design.o_valid;
        if (m_held && (!valid || std::memcmp(m_word, &design.o_payload, OUT_BYTES))) {
            ++batch.violations;
        }
        m_held = valid && !design.o_ready;
        if (m_held) std::memcpy(m_word, &design.o_payload, OUT_BYTES);
        if (valid && design.o_ready) {
            std::memcpy(batch.outputs + batch.given * OUT_BYTES, &design.o_payload, OUT_BYTES);
            batch.given_at[batch.given++] = batch.cycles;
            m_idle = 0;
        }
        ++batch.cycles;
    }

    void watch() {
        const std::string dut = DUT;
        for (const auto& scope : *m_context->scopeNameMap()) {
            const std::string path = scope.first;
            if (path.compare(0, dut.size(), dut) || !scope.second->varsp()) continue;
            // Paths are told from the design on.
            const std::string place = path == dut ? "" : path.substr(dut.size() + 1) + ".";
            for (const auto& var : *scope.second->varsp()) {
                if (var.second.udims()) continue;
                watched.emplace_back(place + var.first,
                                     static_cast<const std::uint8_t*>(var.second.datap()),
                                     var.second.entBits());
            }
        }
    }

};

Simulation* of(void* handle) { return static_cast<Simulation*>(handle); }

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT void* sbnn_create(std::uint64_t seed, std::uint64_t reset_cycles, const char* waves) {
    return new Simulation{seed, reset_cycles, waves};
}

EXPORT void sbnn_destroy(void* handle) { delete of(handle); }

EXPORT const char* sbnn_error(void* handle) { return of(handle)->error.c_str(); }

EXPORT int sbnn_run(void* handle, Batch* batch, std::uint64_t budget) {
    try {
        return of(handle)->run(*batch, budget);
    } catch (const std::exception& stopped) {
        of(handle)->error = stopped.what();
        return 1;
    }
}

EXPORT std::uint64_t sbnn_count(void* handle, std::uint64_t probe) {
    return of(handle)->probes[probe].count;
}

EXPORT int sbnn_waits(void* handle, std::uint64_t probe) {
    return of(handle)->probes[probe].waits;
}

EXPORT const std::uint8_t* sbnn_values(void* handle, std::uint64_t probe) {
    return of(handle)->probes[probe].values.data();
}

EXPORT std::uint64_t sbnn_watched(void* handle) { return of(handle)->watched.size(); }

EXPORT const char* sbnn_watched_name(void* handle, std::uint64_t number) {
    return of(handle)->watched[number].name.c_str();
}

EXPORT std::uint64_t sbnn_watched_bits(void* handle, std::uint64_t number) {
    return of(handle)->watched[number].changes.size();
}

EXPORT const std::uint64_t* sbnn_changes(void* handle, std::uint64_t number) {
    return of(handle)->watched[number].changes.data();
}
