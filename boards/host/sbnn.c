/* Talk to a board that sbnn-hw built; sbnn.h says how. */

#if defined(SBNN_POSIX) && !defined(_DEFAULT_SOURCE)
/* For the rates above 38,400 baud, and flock. */
#define _DEFAULT_SOURCE
#endif

#include "sbnn.h"

#include <string.h>

enum {
    START_REQUEST = 0xA5,
    START_ANSWER = 0x5A,

    IDENTIFY = 0x01,
    CLASSIFY = 0x02,
    COUNTERS = 0x03,
    LOAD = 0x04,
    REFUSED = 0xFF,

    /* A reason to refuse: no program is loaded. */
    NO_PROGRAM = 6,

    /* Start, kind, number, length; identity, and what one of version 2 has behind it; counts. */
    HEAD_BYTES = 7,
    IDENTITY_BYTES = 80,
    PROGRAM_BYTES = 13,
    COUNTS_BYTES = 12,

    /* The most images in a packet. */
    MOST_BATCH = 16,
    /* How long a line is quiet, in bits, before the board gives a packet up. */
    PATIENCE = 4096,
    /* A line may be slow, but not slower than this many times what its rate says. */
    SLOWER = 8,
    /* A packet shall not take longer: an error costs little then. */
    PACKET_SECONDS = 2,
    /* A line that is busy for as long is not a board's. */
    NEVER_QUIET_SECONDS = 5,
    /* Times in a row that an image got no answer at all before all others are given up. */
    MOST_SILENT = 2,
    /* How long one call of the port's read waits at most. */
    SLICE_MS = 100
};

/* The longest payload. */
#define MOST_PAYLOAD 0xFFFFFFu

/* Without a rate, a line that has brought so many bytes is not a board's. */
#define NEVER_QUIET_BYTES 65536u

/* A packet that arrived whole. The payload lies in the buffer, until more is read. */
typedef struct {
    uint8_t kind;
    uint16_t number;
    const uint8_t *payload;
    size_t length;
} packet;

const char *sbnn_error_text(int error)
{
    switch (error) {
    case SBNN_OK: return "all is well";
    case SBNN_ERROR_PORT: return "the port failed; is the board still plugged in?";
    case SBNN_ERROR_NO_ANSWER: return "there was no answer in time; check the cable and the rate";
    case SBNN_ERROR_SILENT: return "the board fell silent; reset it";
    case SBNN_ERROR_NEVER_QUIET: return "the port is never quiet: something else is sending on it";
    case SBNN_ERROR_NO_BOARD: return "the device that answers is not an sbnn-hw board";
    case SBNN_ERROR_VERSION: return "the board speaks another version of the protocol; build its "
                                    "bitstream and this program with the same release";
    case SBNN_ERROR_NETWORK: return "the board has another network; load the one that this program "
                                    "was built for";
    case SBNN_ERROR_GEOMETRY: return "the board reports other sizes than this program was built "
                                     "for; build both again";
    case SBNN_ERROR_ANSWER: return "the board answers with a class that there is not";
    case SBNN_ERROR_ROOM: return "the buffer is too small for an answer; give a larger one";
    case SBNN_ERROR_VALUE: return "a value of an image has more bits than the board takes";
    case SBNN_ERROR_SCORES: return "the board gives no scores; ask for classes only";
    case SBNN_ERROR_BAUD: return "the port cannot have this baud rate; choose another";
    case SBNN_ERROR_OPEN: return "the port cannot be opened; is this the board's port?";
    case SBNN_ERROR_USED: return "the port is used by another program; wait for it";
    case SBNN_ERROR_FIXED: return "the board cannot be loaded; build it with --loadable";
    case SBNN_ERROR_SHAPE: return "the program is for another board; make it for this one's build";
    case SBNN_ERROR_PROGRAM: return "the board has no program, since its last load did not finish; "
                                    "load one";
    case SBNN_ERROR_LOAD: return "the board did not keep what it was loaded with; load it again";
    case SBNN_ERROR_REFUSED - 1: return "the board refused a packet: its checksum was wrong";
    case SBNN_ERROR_REFUSED - 2: return "the board refused a packet: its length was wrong";
    case SBNN_ERROR_REFUSED - 3: return "the board refused a packet: it was not a known command";
    case SBNN_ERROR_REFUSED - 4: return "the board refused a packet: it was cut off";
    case SBNN_ERROR_REFUSED - 5: return "the board refused a packet: a byte had no stop bit";
    case SBNN_ERROR_REFUSED - 6: return "the board refused a packet: no program is loaded";
    default: return error <= SBNN_ERROR_REFUSED ? "the board refused a packet" : "unknown error";
    }
}

uint32_t sbnn_crc32(uint32_t check, const uint8_t *data, size_t size)
{
    /* For half a byte each: a table for a whole byte takes a kilobyte. */
    static const uint32_t halves[16] = {
        0x00000000, 0x1DB71064, 0x3B6E20C8, 0x26D930AC, 0x76DC4190, 0x6B6B51F4, 0x4DB26158,
        0x5005713C, 0xEDB88320, 0xF00F9344, 0xD6D6A3E8, 0xCB61B38C, 0x9B64C2B0, 0x86D3D2D4,
        0xA00AE278, 0xBDBDF21C,
    };
    check = ~check;
    while (size--) {
        check ^= *data++;
        check = check >> 4 ^ halves[check & 15];
        check = check >> 4 ^ halves[check & 15];
    }
    return ~check;
}

static uint16_t get16(const uint8_t *at)
{
    return (uint16_t)(at[0] | (uint16_t)at[1] << 8);
}

static uint32_t get32(const uint8_t *at)
{
    return get16(at) | (uint32_t)get16(at + 2) << 16;
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Return the time that bits take on the line, in milliseconds, rounded up. */
static uint32_t time_of(const sbnn_board *board, uint64_t bits)
{
    uint64_t time = board->baud ? (bits * 1000 + board->baud - 1) / board->baud : 0;
    return time > UINT32_MAX / 2 ? UINT32_MAX / 2 : (uint32_t)time;
}

/* Packets in a stream of bytes */

/* Find the next packet; return whether there is one. What belongs to none is dropped. */
static int find_packet(sbnn_board *board, packet *found)
{
    while (board->begin < board->end) {
        const uint8_t *at = board->buffer + board->begin;
        size_t held = board->end - board->begin;
        const uint8_t *start = (const uint8_t *)memchr(at, START_ANSWER, held);
        uint32_t length;
        if (start == NULL) {
            board->begin = board->end;
            break;
        }
        board->begin += (size_t)(start - at);
        held -= (size_t)(start - at);
        if (held < HEAD_BYTES)
            break;
        length = get16(start + 4) | (uint32_t)start[6] << 16;
        if (length <= board->room - SBNN_OVERHEAD) {
            const uint8_t *check = start + HEAD_BYTES + length;
            if (held < length + SBNN_OVERHEAD)
                break;
            if (get32(check) == sbnn_crc32(0, start + 1, HEAD_BYTES - 1 + (size_t)length)) {
                found->kind = start[1];
                found->number = get16(start + 2);
                found->payload = start + HEAD_BYTES;
                found->length = (size_t)length;
                board->begin += found->length + SBNN_OVERHEAD;
                return 1;
            }
        }
        /* Not a packet: it may start at the next byte that looks so. */
        board->begin++;
    }
    return 0;
}

/* Read what comes; return how many bytes, or an error. */
static long read_more(sbnn_board *board, uint32_t timeout_ms)
{
    long count;
    if (board->begin > 0) {
        memmove(board->buffer, board->buffer + board->begin, board->end - board->begin);
        board->end -= board->begin;
        board->begin = 0;
    }
    /* There is room: a packet that fills the buffer has been found. */
    count = board->port.read(board->port.context, board->buffer + board->end,
                             board->room - board->end, timeout_ms);
    if (count < 0 || (unsigned long)count > board->room - board->end)
        return SBNN_ERROR_PORT;
    board->end += (size_t)count;
    return count;
}

/* Wait until the line has been quiet for so long that the board listens again. */
static int settle(sbnn_board *board, uint32_t times)
{
    uint32_t pause = board->baud ? 20 + times * time_of(board, PATIENCE) : 1;
    uint64_t heard = 0, most = NEVER_QUIET_BYTES;
    if (board->baud)
        most = (uint64_t)board->baud / 10 * NEVER_QUIET_SECONDS;
    for (;;) {
        long count;
        board->begin = board->end = 0;
        count = read_more(board, pause);
        board->begin = board->end = 0;
        if (count <= 0)
            return (int)count;
        heard += (uint64_t)count;
        if (heard > most)
            return SBNN_ERROR_NEVER_QUIET;
    }
}

static int write_all(sbnn_board *board, const uint8_t *data, size_t size, int last)
{
    if (size == 0)
        return SBNN_OK;
    return board->port.write(board->port.context, data, size, last) < 0 ? SBNN_ERROR_PORT : SBNN_OK;
}

/* Send a packet once, and wait for its answer. */
static int ask_once(sbnn_board *board, uint8_t kind, const uint8_t *payload, size_t length,
                    size_t expect, packet *answer)
{
    uint8_t head[HEAD_BYTES], check[4];
    uint32_t sum, waited = 0, due;
    uint64_t bytes = (uint64_t)length + expect + 2 * SBNN_OVERHEAD, heard = 0;
    int status;

    board->number++;
    head[0] = START_REQUEST;
    head[1] = kind;
    head[2] = (uint8_t)(board->number & 0xFF);
    head[3] = (uint8_t)(board->number >> 8);
    head[4] = (uint8_t)(length & 0xFF);
    head[5] = (uint8_t)(length >> 8 & 0xFF);
    head[6] = (uint8_t)((uint32_t)length >> 16 & 0xFF);
    sum = sbnn_crc32(sbnn_crc32(0, head + 1, HEAD_BYTES - 1), payload, length);
    check[0] = (uint8_t)(sum & 0xFF);
    check[1] = (uint8_t)(sum >> 8 & 0xFF);
    check[2] = (uint8_t)(sum >> 16 & 0xFF);
    check[3] = (uint8_t)(sum >> 24);
    if ((status = write_all(board, head, sizeof head, 0)) != SBNN_OK
        || (status = write_all(board, payload, length, 0)) != SBNN_OK
        || (status = write_all(board, check, sizeof check, 1)) != SBNN_OK)
        return status;

    due = board->timeout_ms;
    sum = time_of(board, SLOWER * 10 * bytes);
    due = due > UINT32_MAX - sum ? UINT32_MAX : due + sum;
    for (;;) {
        long count;
        uint32_t slice = least(due - waited, SLICE_MS);
        while (find_packet(board, answer)) {
            /* A refusal has our number, or one that means nothing. */
            if (answer->kind == REFUSED)
                return SBNN_ERROR_REFUSED - (answer->length ? answer->payload[0] : 0);
            /* In another version of the protocol an identity may have another length. */
            if (answer->kind == (kind | 0x80) && answer->number == board->number
                && (answer->length == expect || kind == IDENTIFY))
                return SBNN_OK;
        }
        /* Bytes take time too, though nobody tells how much: what is never right is no answer. */
        if (waited >= due || heard > 4 * (bytes + board->room))
            return SBNN_ERROR_NO_ANSWER;
        count = read_more(board, slice);
        if (count < 0)
            return (int)count;
        heard += (uint64_t)count;
        if (count == 0)
            waited += slice;
    }
}

/* Send a packet until it is answered. */
static int ask(sbnn_board *board, uint8_t kind, const uint8_t *payload, size_t length,
               size_t expect, packet *answer)
{
    uint32_t tries;
    int status;
    for (tries = 1;; tries++) {
        status = ask_once(board, kind, payload, length, expect, answer);
        if (status == SBNN_OK || status == SBNN_ERROR_PORT || tries >= board->tries)
            return status;
        board->retries++;
        if ((status = settle(board, tries)) != SBNN_OK)
            return status;
    }
}

void sbnn_init(sbnn_board *board, sbnn_port port, uint8_t *buffer, size_t room)
{
    memset(board, 0, sizeof *board);
    board->timeout_ms = 1000;
    board->tries = 8;
    board->port = port;
    board->buffer = buffer;
    board->room = room;
}

/* Take over what an identity says, unless no board can be so. */
static int believe(sbnn_board *board, const packet *answer)
{
    const uint8_t *said = answer->payload;
    sbnn_model *model = &board->model;
    uint64_t image, result;
    uint32_t batch;

    if (answer->length < 5 || memcmp(said, "SBNN", 4) != 0)
        return SBNN_ERROR_NO_BOARD;
    if (said[4] != 1 && said[4] != SBNN_VERSION)
        return SBNN_ERROR_VERSION;
    if (answer->length != IDENTITY_BYTES + (said[4] == 1 ? 0 : PROGRAM_BYTES))
        return SBNN_ERROR_NO_BOARD;
    model->value_bits = said[5];
    model->index_bits = said[6];
    model->score_bits = said[7];
    model->classes = get16(said + 8);
    batch = get16(said + 10);
    model->height = get32(said + 12);
    model->width = get32(said + 16);
    model->channels = get32(said + 20);
    board->clock_hz = get32(said + 24);
    board->clocks_per_bit = get32(said + 28);
    memcpy(model->network, said + 32, sizeof model->network);
    memcpy(board->made_by, said + 64, sizeof board->made_by - 1);
    board->made_by[sizeof board->made_by - 1] = '\0';
    board->loaded = 1;
    board->program_bytes = 0;
    if (said[4] != 1) {
        board->loaded = said[80] != 0;
        memcpy(board->shape, said + 81, sizeof board->shape);
        board->program_bytes = get32(said + 89);
    }

    /* Step by step: products of what a board says need not fit anywhere. */
    if (model->value_bits < 1 || model->value_bits > 32 || model->index_bits < 1
        || model->index_bits > 16 || model->score_bits > 32 || model->classes < 1 || batch < 1
        || model->height < 1 || (model->width < 1) != (model->channels < 1))
        return SBNN_ERROR_NO_BOARD;
    image = (uint64_t)model->height * ((model->value_bits + 7u) / 8);
    if (image <= MOST_PAYLOAD && model->width)
        image *= model->width;
    if (image <= MOST_PAYLOAD && model->channels)
        image *= model->channels;
    result = (model->index_bits + (uint64_t)model->score_bits * model->classes + 7) / 8;
    if (image > MOST_PAYLOAD)
        return SBNN_ERROR_NO_BOARD;
    if (result > board->room - SBNN_OVERHEAD)
        return SBNN_ERROR_ROOM;
    board->image_bytes = (uint32_t)image;
    board->result_bytes = (uint32_t)result;
    batch = least(least(batch, MOST_BATCH), (uint32_t)(MOST_PAYLOAD / image));
    if (batch > (board->room - SBNN_OVERHEAD) / result)
        batch = (uint32_t)((board->room - SBNN_OVERHEAD) / result);
    board->batch = batch;
    return SBNN_OK;
}

int sbnn_identify(sbnn_board *board)
{
    packet answer;
    int status;

    board->batch = 0;
    if (board->room < SBNN_LEAST_BUFFER || board->buffer == NULL)
        return SBNN_ERROR_ROOM;
    if ((status = settle(board, 1)) != SBNN_OK
        || (status = ask(board, IDENTIFY, NULL, 0, IDENTITY_BYTES + PROGRAM_BYTES, &answer))
               != SBNN_OK)
        return status;
    return believe(board, &answer);
}

int sbnn_check(const sbnn_board *board, const sbnn_model *model)
{
    const sbnn_model *said = &board->model;
    if (!board->loaded)
        return SBNN_ERROR_PROGRAM;
    if (memcmp(said->network, model->network, sizeof said->network) != 0)
        return SBNN_ERROR_NETWORK;
    if (said->height != model->height || said->width != model->width
        || said->channels != model->channels || said->value_bits != model->value_bits
        || said->index_bits != model->index_bits || said->score_bits != model->score_bits
        || said->classes != model->classes)
        return SBNN_ERROR_GEOMETRY;
    return SBNN_OK;
}

int sbnn_load(sbnn_board *board, const uint8_t *file, size_t size)
{
    const uint8_t *payload;
    packet answer;
    int status;

    if (board->batch == 0)
        return SBNN_ERROR_NO_BOARD;
    if (board->program_bytes == 0)
        return SBNN_ERROR_FIXED;
    if (size < sizeof board->shape + sizeof board->model.network
        || size - sizeof board->shape - sizeof board->model.network != board->program_bytes
        || memcmp(file, board->shape, sizeof board->shape) != 0)
        return SBNN_ERROR_SHAPE;
    payload = file + sizeof board->shape;
    if ((status = ask(board, LOAD, payload, size - sizeof board->shape, 0, &answer)) != SBNN_OK
        || (status = sbnn_identify(board)) != SBNN_OK)
        return status;
    if (!board->loaded || memcmp(board->model.network, payload, sizeof board->model.network) != 0)
        return SBNN_ERROR_LOAD;
    return SBNN_OK;
}

int sbnn_count(sbnn_board *board, sbnn_counters *counters)
{
    packet answer;
    int status;

    if (board->batch == 0)
        return SBNN_ERROR_NO_BOARD;
    if ((status = ask(board, COUNTERS, NULL, 0, COUNTS_BYTES, &answer)) != SBNN_OK)
        return status;
    counters->images = get32(answer.payload);
    counters->busy_cycles = get32(answer.payload + 4);
    counters->errors = get32(answer.payload + 8);
    return SBNN_OK;
}

/* Classes and scores */

/* Return some bits of bytes, up to 32, from a place on. */
static uint32_t get_bits(const uint8_t *bytes, size_t from, unsigned count)
{
    uint32_t bits = 0;
    unsigned n;
    for (n = 0; n < count; n++, from++)
        bits |= (uint32_t)(bytes[from / 8] >> from % 8 & 1) << n;
    return bits;
}

static int32_t with_sign(uint32_t bits, unsigned count)
{
    /* Without a cast of what does not fit: what that gives is the compiler's choice. */
    uint32_t sign = (uint32_t)1 << (count - 1);
    return bits & sign ? -(int32_t)(sign - 1 - (bits & (sign - 1))) - 1 : (int32_t)bits;
}

/* Take the results of an answer; they count only if every class is one. */
static int take_results(const sbnn_board *board, const uint8_t *results, size_t count,
                        int32_t *classes, int32_t *scores)
{
    const sbnn_model *model = &board->model;
    size_t n, k;
    for (n = 0; n < count; n++)
        if (get_bits(results + n * board->result_bytes, 0, model->index_bits) >= model->classes)
            return SBNN_ERROR_ANSWER;
    for (n = 0; n < count; n++) {
        const uint8_t *result = results + n * board->result_bytes;
        size_t at = model->index_bits;
        classes[n] = (int32_t)get_bits(result, 0, model->index_bits);
        for (k = 0; scores != NULL && k < model->classes; k++, at += model->score_bits)
            *scores++ = with_sign(get_bits(result, at, model->score_bits), model->score_bits);
    }
    return SBNN_OK;
}

/* Whether every value of images has no more bits than it may have. */
static int values_fit(const sbnn_board *board, const uint8_t *images, size_t count)
{
    unsigned bytes = (board->model.value_bits + 7u) / 8, high = board->model.value_bits % 8;
    size_t at, size = count * (size_t)board->image_bytes;
    if (high)
        for (at = bytes - 1; at < size; at += bytes)
            if (images[at] >> high)
                return 0;
    return 1;
}

int sbnn_classify(sbnn_board *board, const uint8_t *images, size_t image_bytes, size_t count,
                  int32_t *classes, int32_t *scores, size_t scores_each)
{
    size_t first, n;
    uint32_t most, size, tries = 1, silent = 0;
    int problem = SBNN_OK;

    for (n = 0; n < count; n++)
        classes[n] = -1;
    if (board->batch == 0)
        return SBNN_ERROR_NO_BOARD;
    if (image_bytes != board->image_bytes
        || (scores != NULL && board->model.score_bits && scores_each != board->model.classes))
        return SBNN_ERROR_GEOMETRY;
    if (scores != NULL && board->model.score_bits == 0)
        return SBNN_ERROR_SCORES;
    if (!values_fit(board, images, count))
        return SBNN_ERROR_VALUE;

    most = board->batch;
    if (board->baud)
        most = least(most, PACKET_SECONDS * (board->baud / 10) / board->image_bytes);
    size = most = most ? most : 1;
    for (first = 0; first < count;) {
        size_t now = count - first < size ? count - first : (size_t)size;
        packet answer;
        int quiet, status;
        status = ask_once(board, CLASSIFY, images + first * image_bytes, now * image_bytes,
                          now * (size_t)board->result_bytes, &answer);
        if (status == SBNN_ERROR_PORT)
            return status;
        /* It will not have one the next time either. */
        if (status == SBNN_ERROR_REFUSED - NO_PROGRAM) {
            board->failed += (uint32_t)(count - first);
            return SBNN_ERROR_PROGRAM;
        }
        if (status != SBNN_ERROR_NO_ANSWER)
            silent = 0;
        if (status == SBNN_OK)
            status = take_results(board, answer.payload, now, classes + first,
                                  scores == NULL ? NULL : scores + first * scores_each);
        if (status == SBNN_OK) {
            size = least(most, size + 1);
            first += now;
            tries = 1;
            continue;
        }
        /* Let the board become quiet, then say it again, in a smaller piece. */
        if ((quiet = settle(board, tries)) != SBNN_OK)
            return quiet;
        size = size > 1 ? size / 2 : 1;
        if (now > 1 || tries < board->tries) {
            tries += now == 1;
            board->retries++;
            continue;
        }
        problem = status;
        board->failed++;
        first++;
        tries = 1;
        /* Nothing at all comes back any more: the rest would wait for hours. */
        silent += status == SBNN_ERROR_NO_ANSWER;
        if (silent >= MOST_SILENT && first < count) {
            board->failed += (uint32_t)(count - first);
            return SBNN_ERROR_SILENT;
        }
    }
    return problem;
}

/* A serial port */

#ifdef SBNN_POSIX

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <termios.h>
#include <unistd.h>

/* How long a port may take no byte. */
#define WRITE_MS 10000

static speed_t speed_of(uint32_t baud)
{
    switch (baud) {
    case 9600: return B9600;
    case 19200: return B19200;
    case 38400: return B38400;
    case 57600: return B57600;
    case 115200: return B115200;
    case 230400: return B230400;
#ifdef B460800
    case 460800: return B460800;
    case 500000: return B500000;
    case 921600: return B921600;
    case 1000000: return B1000000;
    case 1500000: return B1500000;
    case 2000000: return B2000000;
    case 3000000: return B3000000;
#endif
    default: return B0;
    }
}

int sbnn_serial_open(sbnn_serial *serial, const char *path, uint32_t baud)
{
    struct termios settings;
    speed_t speed = speed_of(baud);

    serial->file = -1;
    if (speed == B0)
        return SBNN_ERROR_BAUD;
    serial->file = open(path, O_RDWR | O_NOCTTY | O_NONBLOCK);
    if (serial->file < 0)
        return SBNN_ERROR_OPEN;
    /* Two programs on one line would take each other's answers. */
    if (flock(serial->file, LOCK_EX | LOCK_NB) != 0) {
        sbnn_serial_close(serial);
        return SBNN_ERROR_USED;
    }
    if (tcgetattr(serial->file, &settings) != 0) {
        sbnn_serial_close(serial);
        return SBNN_ERROR_OPEN;
    }
    settings.c_iflag = 0;
    settings.c_oflag = 0;
    settings.c_lflag = 0;
    settings.c_cflag = CS8 | CREAD | CLOCAL;
    settings.c_cc[VMIN] = 0;
    settings.c_cc[VTIME] = 0;
    /* A port that does only a part of what it is told says nothing: look. */
    if (cfsetispeed(&settings, speed) != 0 || cfsetospeed(&settings, speed) != 0
        || tcsetattr(serial->file, TCSANOW, &settings) != 0
        || tcgetattr(serial->file, &settings) != 0 || cfgetospeed(&settings) != speed
        || (settings.c_cflag & CSIZE) != CS8) {
        sbnn_serial_close(serial);
        return SBNN_ERROR_BAUD;
    }
    tcflush(serial->file, TCIOFLUSH);
    return SBNN_OK;
}

void sbnn_serial_close(sbnn_serial *serial)
{
    if (serial->file >= 0)
        close(serial->file);
    serial->file = -1;
}

/* Wait until the port can be read or written; return whether it can, or -1. */
static int wait_for(int file, short events, uint32_t timeout_ms)
{
    struct pollfd watched;
    int found;
    watched.fd = file;
    watched.events = events;
    do {
        watched.revents = 0;
        found = poll(&watched, 1, timeout_ms > 0x7FFFFFFF ? 0x7FFFFFFF : (int)timeout_ms);
    } while (found < 0 && errno == EINTR);
    if (found > 0 && !(watched.revents & events))
        return -1;
    return found;
}

static int serial_write(void *context, const uint8_t *data, size_t size, int last)
{
    int file = ((const sbnn_serial *)context)->file;
    (void)last;
    while (size) {
        ssize_t count = write(file, data, size);
        if (count < 0 && errno != EAGAIN && errno != EINTR)
            return -1;
        if (count > 0) {
            data += count;
            size -= (size_t)count;
        } else if (wait_for(file, POLLOUT, WRITE_MS) <= 0) {
            return -1;
        }
    }
    return 0;
}

static long serial_read(void *context, uint8_t *data, size_t size, uint32_t timeout_ms)
{
    int file = ((const sbnn_serial *)context)->file, found = wait_for(file, POLLIN, timeout_ms);
    ssize_t count;
    if (found <= 0)
        return found;
    do
        count = read(file, data, size);
    while (count < 0 && errno == EINTR);
    if (count < 0 && errno == EAGAIN)
        return 0;
    /* Readable, but nothing to read: it was unplugged. */
    return count > 0 ? (long)count : -1;
}

sbnn_port sbnn_serial_port(sbnn_serial *serial)
{
    sbnn_port port;
    port.context = serial;
    port.write = serial_write;
    port.read = serial_read;
    return port;
}

#endif
