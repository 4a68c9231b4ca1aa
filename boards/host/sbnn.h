/* Talk to a board that sbnn-hw built: images there, classes and scores back.
 *
 * Needs C99 and nothing else. There is no malloc and no global state: the caller gives all memory.
 * The line is two functions of the caller's, so that the driver runs on a microcontroller as well.
 * With -DSBNN_POSIX there is also a serial port, for Linux. Copy sbnn.h and sbnn.c into a project;
 * `sbnn-hw build` puts them into the folder host/ of a build, with an example (main.c), and with
 * sbnn_model.h, which has the sizes of the network as constants.
 *
 *     cc -std=c99 -DSBNN_POSIX -o classify main.c sbnn.c
 *     ./classify /dev/ttyUSB1 3000000 images.raw
 *
 * In short:
 *
 *     static uint8_t buffer[SBNN_MODEL_BUFFER];
 *     static const sbnn_model model = SBNN_MODEL;
 *     sbnn_board board;
 *     int status;
 *
 *     sbnn_init(&board, port, buffer, sizeof buffer);
 *     board.baud = 3000000;
 *     if ((status = sbnn_identify(&board)) != SBNN_OK
 *         || (status = sbnn_check(&board, &model)) != SBNN_OK
 *         || (status = sbnn_classify(&board, images, SBNN_MODEL_IMAGE_BYTES, count,
 *                                    classes, scores, SBNN_MODEL_CLASSES)) != SBNN_OK)
 *         puts(sbnn_error_text(status));
 *
 * An answer counts only if its check, number, kind and length are right. A packet that is refused,
 * or not answered in time, is sent again: in halves, down to one image, and that `tries` times.
 * Images that get no answer have the class -1. There is one packet on the line at a time.
 *
 * docs/wire.md has the packets, and the rules for SPI.
 */

#ifndef SBNN_H
#define SBNN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the protocol. A board that cannot be loaded speaks version 1. */
#define SBNN_VERSION 2

/* The bytes of a packet that are not its payload, and the smallest buffer: for an identity. */
#define SBNN_OVERHEAD 11
#define SBNN_LEAST_BUFFER (93 + SBNN_OVERHEAD)

/* On SPI: what either side sends when it has nothing to say. No packet starts with it. */
#define SBNN_IDLE 0xFF

enum {
    SBNN_OK = 0,
    /* A function of the port failed. */
    SBNN_ERROR_PORT = -1,
    SBNN_ERROR_NO_ANSWER = -2,
    /* Given up, since images before got no answer at all. */
    SBNN_ERROR_SILENT = -3,
    /* Something else sends on the line. */
    SBNN_ERROR_NEVER_QUIET = -4,
    SBNN_ERROR_NO_BOARD = -5,
    SBNN_ERROR_VERSION = -6,
    /* The board has another network, or reports other sizes. */
    SBNN_ERROR_NETWORK = -7,
    SBNN_ERROR_GEOMETRY = -8,
    /* An answer that came whole has a class that there is not. */
    SBNN_ERROR_ANSWER = -9,
    /* What the caller gave: too small a buffer, a value too large, scores that there are not. */
    SBNN_ERROR_ROOM = -10,
    SBNN_ERROR_VALUE = -11,
    SBNN_ERROR_SCORES = -12,
    SBNN_ERROR_BAUD = -13,
    SBNN_ERROR_OPEN = -14,
    SBNN_ERROR_USED = -15,
    /* The board cannot be loaded; or it takes programs of another shape or size. */
    SBNN_ERROR_FIXED = -16,
    SBNN_ERROR_SHAPE = -17,
    /* It has no program, since a load did not finish; or another one than it was loaded with. */
    SBNN_ERROR_PROGRAM = -18,
    SBNN_ERROR_LOAD = -19,
    /* The board refused a packet; its reason is taken away from this. */
    SBNN_ERROR_REFUSED = -256
};

/* Return the sentence for an error. */
const char *sbnn_error_text(int error);

/* The line to a board. */
typedef struct {
    void *context;
    /* Send bytes, all of them. `last` is not 0 where they end a packet: on SPI the board must then
     * be deselected. Return 0, or a negative number if the line is gone. */
    int (*write)(void *context, const uint8_t *data, size_t size, int last);
    /* Wait until there are bytes, but not longer than the time; return how many there are now, up
     * to `size`; 0 if the time is over; or a negative number if the line is gone. On SPI: read
     * while the board's pin `ready` is high. */
    long (*read)(void *context, uint8_t *data, size_t size, uint32_t timeout_ms);
} sbnn_port;

/* A network, as far as the line is concerned. */
typedef struct {
    uint8_t network[32]; /* The digest. */
    /* Of an image. Width and channels are 0 where it is only a row of values. */
    uint32_t height, width, channels;
    uint8_t value_bits;
    /* Of a result: bits of the class, bits of each score (0 if there are none), scores. */
    uint8_t index_bits, score_bits;
    uint16_t classes;
} sbnn_model;

/* What a board has done since it was reset; each wraps at 2^32. */
typedef struct {
    uint32_t images, busy_cycles, errors;
} sbnn_counters;

/* A board. The caller may set the fields in the first part after sbnn_init, and read the others. */
typedef struct {
    /* An answer is missed if it takes so much longer than the line itself does (1000). */
    uint32_t timeout_ms;
    /* How often a packet is sent before its images are given up (8). */
    uint32_t tries;
    /* Bits per second; 0 (as it is at first) where there is no such rate, as on SPI. */
    uint32_t baud;

    /* Who the board says that it is. */
    sbnn_model model;
    uint32_t clock_hz, clocks_per_bit;
    char made_by[17];
    /* The digest of the shape that its programs must have, and their bytes: 0 if it cannot be
     * loaded. Whether one is loaded; where it is not, the network's digest means nothing. */
    uint8_t shape[8];
    uint32_t program_bytes;
    int loaded;
    /* Bytes of an image and of a result; the most images in a packet that the buffer is good for. */
    uint32_t image_bytes, result_bytes;
    uint32_t batch;
    /* Packets that were sent again, and images without an answer, since sbnn_init. */
    uint32_t retries, failed;

    /* The driver's own. */
    sbnn_port port;
    uint8_t *buffer;
    size_t room, begin, end;
    uint16_t number;
} sbnn_board;

/* Set all fields. Answers go into the buffer, SBNN_LEAST_BUFFER bytes or more. It must last as long
 * as the board. With a larger one there are more images in a packet. */
void sbnn_init(sbnn_board *board, sbnn_port port, uint8_t *buffer, size_t room);

/* Ask who is there. Must succeed before anything else. */
int sbnn_identify(sbnn_board *board);

/* Make sure that the board has this network. */
int sbnn_check(const sbnn_board *board, const sbnn_model *model);

/* Ask for the classes of images, and for their scores unless `scores` is NULL.
 *
 * An image has `image_bytes` bytes: row by row, channels together, each value one byte, or as many
 * as its bits need, the lowest first. `classes` has room for `count`, `scores` for `count` times
 * `scores_each`. Both sizes are the caller's own: SBNN_ERROR_GEOMETRY if the board has others.
 *
 * Return SBNN_OK if all images got an answer. Otherwise return the error of the last one that did
 * not; those have the class -1, and their scores are untouched. */
int sbnn_classify(sbnn_board *board, const uint8_t *images, size_t image_bytes, size_t count,
                  int32_t *classes, int32_t *scores, size_t scores_each);

/* Put a program on the board, in place of the one that is there: the file that `sbnn-hw load --out`
 * writes, which has the digests of its shape and of its network in front. Until it is there the
 * board classifies nothing. If this fails, it stays so, and the same can be tried again. */
int sbnn_load(sbnn_board *board, const uint8_t *file, size_t size);

/* Ask what the board has done. */
int sbnn_count(sbnn_board *board, sbnn_counters *counters);

/* Return the check of bytes, after that of those before (0): CRC-32, as in zlib. */
uint32_t sbnn_crc32(uint32_t check, const uint8_t *data, size_t size);

#ifdef SBNN_POSIX

/* A serial port. */
typedef struct {
    int file;
} sbnn_serial;

/* Open a port such as /dev/ttyUSB1, for this program alone. */
int sbnn_serial_open(sbnn_serial *serial, const char *path, uint32_t baud);

/* Return the port for sbnn_init; `serial` must last as long as the board. */
sbnn_port sbnn_serial_port(sbnn_serial *serial);

void sbnn_serial_close(sbnn_serial *serial);

#endif

#ifdef __cplusplus
}
#endif

#endif
