// What Verilator's writer of FST takes of zlib, where zlib is not installed: stored blocks.
//
// The result is right for every reader, but as large as what went in.

#ifndef SBNN_PLAIN_ZLIB_H
#define SBNN_PLAIN_ZLIB_H

#include <cstring>

typedef unsigned char Bytef;
typedef unsigned long uLong;
typedef unsigned long uLongf;

enum { Z_OK = 0 };

inline uLong compressBound(uLong size) { return size + (size / 65535 + 1) * 5 + 6; }

inline int compress2(Bytef* target, uLongf* room, const Bytef* source, uLong size, int) {
    Bytef* at = target;
    const auto put = [&](unsigned byte) { *at++ = static_cast<Bytef>(byte & 255); };
    // A window of 32 KiB, no dictionary, the fastest level.
    put(0x78), put(0x01);
    uLong a = 1, b = 0, left = size;
    do {
        const uLong now = left < 65535 ? left : 65535;
        put(now == left), put(now), put(now >> 8), put(~now), put(~now >> 8);
        std::memcpy(at, source, now);
        at += now;
        // The check is Adler-32.
        for (uLong n = 0; n < now; ++n) {
            a = (a + *source++) % 65521;
            b = (b + a) % 65521;
        }
        left -= now;
    } while (left);
    put(b >> 8), put(b), put(a >> 8), put(a);
    *room = static_cast<uLongf>(at - target);
    return Z_OK;
}

#endif
