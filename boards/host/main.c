/* Classify images on a board, an example for sbnn.h.
 *
 *     cc -std=c99 -DSBNN_POSIX -o classify main.c sbnn.c
 *     ./classify PORT BAUD IMAGES [MILLISECONDS]
 *
 * The file has images one after another, SBNN_MODEL_IMAGE_BYTES each: raw pixels, row by row. For
 * each image it prints the class, then the scores; the class is -1 where there was no answer. An
 * answer may take a second longer than the line does, or as long as is said. */

#include "sbnn.h"
#include "sbnn_model.h"

#include <stdio.h>
#include <stdlib.h>

/* Images that are read at once; what may go wrong here, besides the errors of sbnn.h. */
enum { PART = 256, BAD_FILE = 1, BAD_OUTPUT = 2 };

/* Read a number; return 0 if it is none, or too large. */
static uint32_t number(const char *text)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    return *end || value > 0xFFFFFFFFu ? 0 : (uint32_t)value;
}

/* Classify all images of a file, and print what comes; return an error of sbnn.h, or of the file. */
static int print_all(sbnn_board *board, FILE *file)
{
    static uint8_t images[PART * SBNN_MODEL_IMAGE_BYTES];
    static int32_t classes[PART], scores[PART * SBNN_MODEL_CLASSES];
    int problem = SBNN_OK;
    size_t size, count, n, k, all = 0;

    do {
        int status;
        size = fread(images, 1, sizeof images, file);
        count = size / SBNN_MODEL_IMAGE_BYTES;
        all += size;
        status = sbnn_classify(board, images, SBNN_MODEL_IMAGE_BYTES, count, classes,
                               SBNN_MODEL_SCORE_BITS ? scores : NULL, SBNN_MODEL_CLASSES);
        for (n = 0; n < count; n++) {
            printf("%ld", (long)classes[n]);
            for (k = 0; SBNN_MODEL_SCORE_BITS && classes[n] >= 0 && k < SBNN_MODEL_CLASSES; k++)
                printf(" %ld", (long)scores[n * SBNN_MODEL_CLASSES + k]);
            putchar('\n');
        }
        if (status != SBNN_OK)
            problem = status;
        if (status == SBNN_ERROR_PORT || status == SBNN_ERROR_SILENT
            || status == SBNN_ERROR_NEVER_QUIET)
            return status;
    } while (size == sizeof images);
    if (ferror(file) || all == 0 || size % SBNN_MODEL_IMAGE_BYTES)
        return BAD_FILE;
    return fflush(stdout) == 0 && !ferror(stdout) ? problem : BAD_OUTPUT;
}

int main(int argc, char **argv)
{
    static const sbnn_model model = SBNN_MODEL;
    static uint8_t buffer[SBNN_MODEL_BUFFER];
    sbnn_serial serial;
    sbnn_board board;
    sbnn_counters counters;
    FILE *file;
    uint32_t baud, milliseconds;
    int status;

    milliseconds = argc > 4 ? number(argv[4]) : 1000;
    if (argc < 4 || argc > 5 || milliseconds == 0) {
        fprintf(stderr, "usage: %s PORT BAUD IMAGES [MILLISECONDS]\n", argv[0]);
        return 2;
    }
    baud = number(argv[2]);
    file = fopen(argv[3], "rb");
    if (file == NULL) {
        perror(argv[3]);
        return 2;
    }
    status = sbnn_serial_open(&serial, argv[1], baud);
    if (status == SBNN_OK) {
        sbnn_init(&board, sbnn_serial_port(&serial), buffer, sizeof buffer);
        board.baud = baud;
        board.timeout_ms = milliseconds;
        status = sbnn_identify(&board);
        if (status == SBNN_OK)
            status = sbnn_check(&board, &model);
        if (status == SBNN_OK)
            status = print_all(&board, file);
        if (status == SBNN_OK)
            status = sbnn_count(&board, &counters);
        if (status == SBNN_OK)
            fprintf(stderr, "%lu packets sent again; the board counts %lu images, %lu errors\n",
                    (unsigned long)board.retries, (unsigned long)counters.images,
                    (unsigned long)counters.errors);
        sbnn_serial_close(&serial);
    }
    fclose(file);
    if (status == BAD_FILE)
        fprintf(stderr, "%s: not a file of whole images, %ld bytes each\n", argv[3],
                (long)SBNN_MODEL_IMAGE_BYTES);
    else if (status == BAD_OUTPUT)
        fprintf(stderr, "the results could not be written\n");
    else if (status != SBNN_OK)
        fprintf(stderr, "%s: %s\n", argv[1], sbnn_error_text(status));
    return status == SBNN_OK ? 0 : 1;
}
