/* A line that does everything wrong, under sanitizers: no answer may be wrong, no byte out of place.
 *
 * Each round is a board with a truthful or an invented identity. What it says is damaged: bits
 * turned round, bytes lost, doubled, put in, answers of other packets, or nothing but random bytes.
 * Prints how many answers came through, how many did not, and how many identities were refused. */

#include "sbnn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEIGHT = 3, IMAGE = 6, CLASSES = 7, COUNT = 20, SCORE_BITS = 5, RESULT = 5 };

static uint32_t seed;

static uint32_t draw(uint32_t below)
{
    seed ^= seed << 13;
    seed ^= seed >> 17;
    seed ^= seed << 5;
    return seed % below;
}

typedef struct {
    int damage, lies;
    uint8_t asked[1 << 12], said[1 << 14];
    size_t asked_end, said_end;
} line;

static size_t pack(uint8_t *to, uint8_t kind, const uint8_t *number, const uint8_t *payload,
                   size_t length)
{
    uint32_t check;
    to[0] = 0x5A;
    to[1] = kind;
    memcpy(to + 2, number, 2);
    to[4] = (uint8_t)length;
    to[5] = (uint8_t)(length >> 8);
    to[6] = 0;
    memcpy(to + 7, payload, length);
    check = sbnn_crc32(0, to + 1, length + 6);
    to[7 + length] = (uint8_t)check;
    to[8 + length] = (uint8_t)(check >> 8);
    to[9 + length] = (uint8_t)(check >> 16);
    to[10 + length] = (uint8_t)(check >> 24);
    return length + 11;
}

/* The result of an image: its first value, and scores from its second one on. */
static int32_t score_of(const uint8_t *image, int k)
{
    return (image[1] + 5 * k) % 32 - 16;
}

static void say(line *line, const uint8_t *data, size_t size)
{
    size_t n;
    for (n = 0; n < size && line->said_end + 4 < sizeof line->said; n++) {
        uint8_t byte = data[n];
        if (line->damage && draw(300) < (uint32_t)line->damage)
            switch (draw(4)) {
            case 0: continue;
            case 1: line->said[line->said_end++] = byte; break;
            case 2: line->said[line->said_end++] = (uint8_t)draw(256); break;
            default: byte ^= (uint8_t)(1u << draw(8));
            }
        line->said[line->said_end++] = byte;
    }
}

static void answer(line *line)
{
    uint8_t payload[1 << 10], whole[1 << 11];
    const uint8_t *asked = line->asked;
    size_t length = 0, n;
    int k, bit;

    memset(payload, 0, sizeof payload);
    if (asked[1] == 1) {
        memcpy(payload, "SBNN\1\10\3", 7);
        payload[7] = SCORE_BITS;
        payload[8] = CLASSES;
        payload[10] = 16;
        payload[12] = HEIGHT;
        payload[16] = 2;
        payload[20] = 1;
        length = 80;
        if (line->lies)
            for (n = draw(6) + 1; n; n--)
                payload[draw(28) + 4] = (uint8_t)(draw(2) ? 0xFF : draw(256));
        if (line->lies && draw(8) == 0)
            length = draw(120);
    } else if (asked[1] == 2) {
        for (n = 0; n < (line->asked_end - 11) / IMAGE; n++) {
            const uint8_t *image = asked + 7 + n * IMAGE;
            uint8_t *result = payload + length;
            result[0] = image[0];
            for (k = 0; k < CLASSES; k++)
                for (bit = 0; bit < SCORE_BITS; bit++) {
                    int at = 3 + k * SCORE_BITS + bit;
                    result[at / 8] |= (uint8_t)(((uint32_t)score_of(image, k) >> bit & 1) << at % 8);
                }
            length += RESULT;
        }
        if (line->lies && draw(3) == 0)
            for (n = 0; n < length; n++)
                payload[n] = (uint8_t)draw(256);
    } else {
        length = 12;
    }
    if (line->damage && draw(12) == 0) {
        /* An answer to another packet, all zeros. */
        uint8_t number[2];
        number[0] = (uint8_t)(asked[2] ^ 1);
        number[1] = asked[3];
        say(line, whole, pack(whole, asked[1] | 0x80, number, payload + 512, length));
    }
    if (line->damage && draw(12) == 0) {
        payload[0] = (uint8_t)draw(7);
        say(line, whole, pack(whole, 0xFF, asked + 2, payload, draw(2)));
        return;
    }
    if (line->damage && draw(12) == 0)
        for (n = draw(400); n; n--)
            line->said[line->said_end++] = (uint8_t)(draw(3) ? draw(256) : 0x5A);
    if (line->damage && draw(20) == 0)
        return;
    say(line, whole, pack(whole, asked[1] | 0x80, asked + 2, payload, length));
}

static int write_line(void *context, const uint8_t *data, size_t size, int last)
{
    line *line = context;
    if (line->asked_end + size > sizeof line->asked)
        abort();
    memcpy(line->asked + line->asked_end, data, size);
    line->asked_end += size;
    if (last) {
        line->said_end = 0;
        answer(line);
        line->asked_end = 0;
    }
    return 0;
}

static long read_line(void *context, uint8_t *data, size_t size, uint32_t timeout_ms)
{
    line *line = context;
    size_t count = 1 + draw(40);
    (void)timeout_ms;
    if (count > line->said_end)
        count = line->said_end;
    if (count > size)
        count = size;
    memcpy(data, line->said, count);
    memmove(line->said, line->said + count, line->said_end - count);
    line->said_end -= count;
    return (long)count;
}

int main(int argc, char **argv)
{
    static line wire;
    long rounds = argc > 1 ? strtol(argv[1], NULL, 10) : 100, right = 0, without = 0, refused = 0;
    for (seed = 1; rounds; rounds--) {
        /* On the heap, to the byte: a step beyond the end is seen. */
        size_t room = SBNN_LEAST_BUFFER + draw(100);
        uint8_t *buffer = malloc(room), *images = malloc(COUNT * IMAGE);
        int32_t *classes = malloc(COUNT * sizeof *classes);
        int32_t *scores = malloc(COUNT * CLASSES * sizeof *scores);
        sbnn_port port;
        sbnn_board board;
        sbnn_counters counters;
        int n, k, status;

        port.context = &wire;
        port.write = write_line;
        port.read = read_line;
        wire.asked_end = wire.said_end = 0;
        wire.damage = draw(4) ? (int)draw(40) : 0;
        wire.lies = draw(3) == 0;
        sbnn_init(&board, port, buffer, room);
        board.timeout_ms = 10;
        board.tries = 1 + draw(8);
        board.baud = draw(2) ? 115200 : 0;
        for (n = 0; n < COUNT * IMAGE; n++)
            images[n] = (uint8_t)(n % IMAGE ? draw(256) : draw(CLASSES));
        status = sbnn_identify(&board);
        if (status == SBNN_OK)
            status = sbnn_classify(&board, images, IMAGE, COUNT, classes, scores, CLASSES);
        if (status != SBNN_OK && !wire.lies && !wire.damage) {
            printf("a clean line failed: %s\n", sbnn_error_text(status));
            return 1;
        }
        if (board.batch && board.image_bytes == IMAGE && board.model.classes == CLASSES)
            sbnn_count(&board, &counters);
        refused += board.batch == 0;
        for (n = 0; board.batch && !wire.lies && n < COUNT; n++) {
            without += classes[n] < 0;
            right += classes[n] >= 0;
            for (k = 0; k < CLASSES && classes[n] >= 0; k++)
                if (classes[n] != images[n * IMAGE]
                    || scores[n * CLASSES + k] != score_of(images + n * IMAGE, k)) {
                    printf("image %d is wrong\n", n);
                    return 1;
                }
        }
        free(buffer);
        free(images);
        free(classes);
        free(scores);
    }
    printf("%ld right, %ld without an answer, %ld identities refused\n", right, without, refused);
    return 0;
}
