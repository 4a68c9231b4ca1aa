// The master of an SPI line to a Verilated board: bytes out, bytes in, and noise on the way.
//
// Time runs in clocks of the board, and edges of the line lie anywhere between them. As in
// sim/line.cpp the design sits in a bench with a register before its inputs: whatever the master
// does reaches the board a clock later, as if pins and wires took that long.

#include "design.h"

#include "verilated.h"

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

void vl_fatal(const char* file, int line, const char*, const char* message) {
    throw std::runtime_error(std::string{file} + ":" + std::to_string(line) + ": " + message);
}

namespace {

// The fields are the same, in the same order, in spi_line.py.
struct Talk {
    const std::uint8_t* sent;
    std::uint8_t* heard;
    std::uint64_t bits;
    double period;
    double noise;
};

class Master {
    std::unique_ptr<VerilatedContext> m_context{new VerilatedContext};
    std::unique_ptr<Vdesign> m_design{new Vdesign{m_context.get(), "TOP"}};
    std::uint64_t m_random;
    double m_now = 0.0;    // The last edge of the line.
    double m_clock = 0.0;  // The next clock.

public:
    std::string error;

    explicit Master(std::uint64_t seed) : m_random{seed} {
        m_design->next_rst = 1;
        m_design->next_cs_n = 1;
        m_design->next_sck = 0;
        m_design->next_mosi = 1;
        for (int n = 0; n < 3; ++n) tick();
        m_design->next_rst = 0;
        tick();
    }

    ~Master() { m_design->final(); }

    bool ready() const { return m_design->ready; }
    bool drives() const { return m_design->miso_oe; }
    unsigned lights() const { return m_design->leds; }

    void wait(double clocks) { advance(m_now + clocks); }

    // Select the board, or not; each takes half a period.
    void select(bool on, double period) {
        m_design->next_cs_n = !on;
        advance(m_now + period / 2);
    }

    void transfer(Talk& talk) {
        for (std::uint64_t n = 0; n < talk.bits; ++n) {
            const bool out = talk.sent[n / 8] >> (7 - n % 8) & 1;
            m_design->next_mosi = out != flips(talk.noise);
            advance(m_now + talk.period / 2);
            const bool in = m_design->miso != flips(talk.noise);
            talk.heard[n / 8] |= in << (7 - n % 8);
            m_design->next_sck = 1;
            advance(m_now + talk.period / 2);
            m_design->next_sck = 0;
        }
        m_design->next_mosi = 1;
        advance(m_now + talk.period / 2);
    }

private:
    // Let all clocks pass that come before an edge at this time; what is set then is seen next.
    void advance(double to) {
        while (m_clock < to) {
            tick();
            m_clock += 1.0;
        }
        m_now = to;
    }

    void tick() {
        m_design->clk = 1;
        m_design->eval();
        m_design->clk = 0;
        m_design->eval();
    }

    bool flips(double odds) {
        if (odds <= 0.0) return false;
        std::uint64_t z = (m_random += 0x9e3779b97f4a7c15ULL);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
        return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53 < odds;
    }
};

Master* of(void* handle) { return static_cast<Master*>(handle); }

template <typename Call>
void guarded(void* handle, Call call) {
    try {
        call(*of(handle));
    } catch (const std::exception& stopped) {
        of(handle)->error = stopped.what();
    }
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT void* spi_create(std::uint64_t seed) { return new Master{seed}; }
EXPORT void spi_destroy(void* handle) { delete of(handle); }
EXPORT const char* spi_error(void* handle) { return of(handle)->error.c_str(); }
EXPORT unsigned spi_ready(void* handle) { return of(handle)->ready(); }
EXPORT unsigned spi_drives(void* handle) { return of(handle)->drives(); }
EXPORT unsigned spi_lights(void* handle) { return of(handle)->lights(); }

EXPORT void spi_wait(void* handle, double clocks) {
    guarded(handle, [=](Master& master) { master.wait(clocks); });
}

EXPORT void spi_select(void* handle, unsigned on, double period) {
    guarded(handle, [=](Master& master) { master.select(on, period); });
}

EXPORT void spi_transfer(void* handle, Talk* talk) {
    guarded(handle, [=](Master& master) { master.transfer(*talk); });
}
