// What Verilator's writer of FST takes of lz4, where lz4 is not installed: blocks without matches.
//
// The result is right for every reader, but as large as what went in.

#ifndef SBNN_PLAIN_LZ4_H
#define SBNN_PLAIN_LZ4_H

#include <cstring>

inline int LZ4_compressBound(int size) { return size + size / 255 + 16; }

inline int LZ4_compress_default(const char* source, char* target, int size, int) {
    char* at = target;
    // A token with the number of literals, which goes on behind it from 15 up; then they.
    *at++ = static_cast<char>((size < 15 ? size : 15) << 4);
    if (size >= 15) {
        int left = size - 15;
        for (; left >= 255; left -= 255) *at++ = static_cast<char>(255);
        *at++ = static_cast<char>(left);
    }
    std::memcpy(at, source, static_cast<std::size_t>(size));
    return static_cast<int>(at - target) + size;
}

#endif
