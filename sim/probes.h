// Signals inside a Verilated design, looked at just before every rising edge of the clock.
//
// `design.h` defines DUT, the scope below which their paths start.

#pragma once

#include "verilated.h"
#include "verilated_sym_props.h"
#include "verilated_syms.h"

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

struct ProbeSpec {
    std::vector<const char*> strobes;
    const char* payload;
    std::size_t width;
};

class Signal {
    const std::uint8_t* m_data = nullptr;

public:
    Signal() = default;
    Signal(const std::uint8_t* data) : m_data{data} {}
    bool high() const { return *m_data & 1; }
    const std::uint8_t* data() const { return m_data; }
};

struct Probe {
    std::vector<Signal> strobes;
    Signal payload;
    std::size_t bytes = 0;
    std::uint64_t count = 0;
    bool waits = false;  // In the last cycle the first strobe was high, but not all were.
    std::vector<std::uint8_t> values;

    Probe(const VerilatedContext& context, const ProbeSpec& spec) {
        for (const char* path : spec.strobes) strobes.push_back(find(context, path, 1));
        if (spec.payload) {
            payload = find(context, spec.payload, spec.width);
            bytes = (spec.width + 7) / 8;
        }
    }

    void sample() {
        waits = false;
        for (const Signal& strobe : strobes) {
            if (!strobe.high()) {
                waits = strobes.front().high();
                return;
            }
        }
        ++count;
        if (bytes) values.insert(values.end(), payload.data(), payload.data() + bytes);
    }

private:
    static Signal find(const VerilatedContext& context, const std::string& name,
                       std::size_t width) {
        const std::string path = std::string{DUT} + "." + name;
        const std::size_t dot = path.rfind('.');
        const VerilatedScope* scope = context.scopeFind(path.substr(0, dot).c_str());
        const VerilatedVar* var = scope ? scope->varFind(path.substr(dot + 1).c_str()) : nullptr;
        if (!var) throw std::runtime_error("probe: no signal " + name);
        const std::size_t bits = var->udims() ? 0 : var->entBits();
        if (bits != width) {
            throw std::runtime_error("probe: signal " + name + " has " + std::to_string(bits)
                                     + " bits, not " + std::to_string(width));
        }
        return Signal{static_cast<const std::uint8_t*>(var->datap())};
    }
};

}  // namespace
