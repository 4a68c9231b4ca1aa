// Both ends of a serial line to a Verilated board: bytes in, bytes out, and noise on the way.
//
// `design.h`, which is written for each design, includes the Verilated header and defines DIVISOR,
// the clocks of a bit, and what probes.h needs. The functions at the end are all that Python sees.
// As in harness.cpp, the design sits in a bench with a register before its inputs: one evaluation a
// cycle.

#include "design.h"
#include "probes.h"

#include "verilated.h"

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

// The runtime is compiled without its own vl_fatal, which would end the whole Python process.
void vl_fatal(const char* file, int line, const char*, const char* message) {
    throw std::runtime_error(std::string{file} + ":" + std::to_string(line) + ": " + message);
}

namespace {

// What Python asks for, and what it gets. The fields are the same, in the same order, in line.py.
struct Talk {
    const std::uint8_t* sent;
    std::uint64_t sent_count;
    std::uint8_t* heard;
    std::uint64_t heard_room;
    std::uint64_t cycles;
    double noise;
    std::uint64_t taken;
    std::uint64_t given;
    std::uint64_t broken;
};

class Line {
    std::unique_ptr<VerilatedContext> m_context{new VerilatedContext};
    std::unique_ptr<Vdesign> m_design{new Vdesign{m_context.get(), "TOP"}};
    std::uint64_t m_random;

    // From the host: bits still to be sent, the lowest first.
    unsigned m_out_bits = 0, m_out_left = 0, m_out_wait = 0;
    bool m_rx = true;
    // To the host: bits sampled so far.
    unsigned m_in_bits = 0, m_in_left = 0, m_in_wait = 0;
    bool m_was_high = true;

public:
    std::vector<Probe> probes;
    std::string error;

    explicit Line(std::uint64_t seed) : m_random{seed} {
        m_design->next_rst = 1;
        m_design->next_rx = 1;
        for (int n = 0; n < 3; ++n) tick();
        m_design->next_rst = 0;
        tick();
        const std::vector<ProbeSpec> specs PROBES;
        try {
            for (const ProbeSpec& spec : specs) probes.emplace_back(*m_context, spec);
        } catch (const std::exception& stopped) {
            error = stopped.what();
        }
    }

    ~Line() { m_design->final(); }

    void run(Talk& talk) {
        for (std::uint64_t n = 0; n < talk.cycles && talk.given < talk.heard_room; ++n) {
            send(talk);
            m_design->next_rx = m_rx;
            tick();
            for (Probe& probe : probes) probe.sample();
            hear(talk);
        }
    }

    unsigned lights() const { return m_design->leds; }

private:
    void tick() {
        m_design->clk = 1;
        m_design->eval();
        m_design->clk = 0;
        m_design->eval();
    }

    // SplitMix64: small, and good from any seed.
    bool flips(double odds) {
        if (odds <= 0.0) return false;
        std::uint64_t z = (m_random += 0x9e3779b97f4a7c15ULL);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
        return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53 < odds;
    }

    void send(Talk& talk) {
        if (m_out_wait) {
            --m_out_wait;
            return;
        }
        if (!m_out_left) {
            if (talk.taken == talk.sent_count) {
                m_rx = true;
                return;
            }
            m_out_bits = talk.sent[talk.taken++] << 1 | 1u << 9;
            m_out_left = 10;
        }
        m_rx = (m_out_bits & 1) != flips(talk.noise);
        m_out_bits >>= 1;
        --m_out_left;
        m_out_wait = DIVISOR - 1;
    }

    void hear(Talk& talk) {
        const bool tx = m_design->tx;
        if (!m_in_left) {
            if (m_was_high && !tx) {
                m_in_left = 10;
                m_in_wait = DIVISOR / 2;
            }
            m_was_high = tx;
            return;
        }
        if (--m_in_wait) return;
        m_in_wait = DIVISOR;
        m_in_bits = m_in_bits >> 1 | (tx != flips(talk.noise)) << 9;
        if (m_in_left == 10 && m_in_bits >> 9) {
            m_in_left = 0;  // No start bit after all.
            m_was_high = true;
            return;
        }
        if (--m_in_left) return;
        m_was_high = tx;
        if (m_in_bits >> 9) {
            talk.heard[talk.given++] = m_in_bits >> 1;
        } else {
            ++talk.broken;
        }
    }
};

Line* of(void* handle) { return static_cast<Line*>(handle); }

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT void* line_create(std::uint64_t seed) { return new Line{seed}; }

EXPORT void line_destroy(void* handle) { delete of(handle); }

EXPORT const char* line_error(void* handle) { return of(handle)->error.c_str(); }

EXPORT unsigned line_lights(void* handle) { return of(handle)->lights(); }

EXPORT std::uint64_t line_count(void* handle, std::uint64_t probe) {
    return of(handle)->probes[probe].count;
}

EXPORT int line_waits(void* handle, std::uint64_t probe) {
    return of(handle)->probes[probe].waits;
}

EXPORT void line_run(void* handle, Talk* talk) {
    try {
        of(handle)->run(*talk);
    } catch (const std::exception& stopped) {
        of(handle)->error = stopped.what();
    }
}
