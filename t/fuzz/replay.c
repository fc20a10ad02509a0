
/*
 * A fuzz target without a fuzzer: runs the files named on the command line,
 * each whole, cut at every length, and with bytes of it changed (RANDOM_SEED,
 * see seed.h).
 */

#include "fuzz.h"

#include "seed.h"


#define REPLAY_CUTS     300
#define REPLAY_CHANGES  300


static uint64_t  replay_seed;


static uint32_t
replay_random(uint32_t below)
{
    replay_seed = replay_seed * 6364136223846793005ull
                  + 1442695040888963407ull;

    return (uint32_t) (replay_seed >> 33) % below;
}


static void
replay_run(const uint8_t *data, size_t size)
{
    void  *copy;

    copy = fuzz_copy(data, size);
    (void) LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}


static void
replay_change(const uint8_t *data, size_t size)
{
    int                    n;
    uint8_t               *copy;
    static const uint8_t   odd[] = { 0, 1, 0x7f, 0x80, 0xfe, 0xff, '"', '\\' };

    copy = fuzz_copy(data, size);

    for (n = 1 + (int) replay_random(4); n; n--) {
        copy[replay_random((uint32_t) size)] =
            replay_random(2) ? odd[replay_random(sizeof(odd))]
                             : (uint8_t) replay_random(256);
    }

    replay_run(copy, size);
    free(copy);
}


static int
replay_file(const char *name)
{
    int              i;
    FILE            *f;
    size_t           cut, size;
    static uint8_t   data[65536];

    f = fopen(name, "rb");
    if (f == NULL) {
        perror(name);
        return 1;
    }

    size = fread(data, 1, sizeof(data), f);
    (void) fclose(f);

    replay_run(data, size);

    for (cut = 0; cut < size; cut += 1 + size / REPLAY_CUTS) {
        replay_run(data, cut);
    }

    for (i = 0; size && i < REPLAY_CHANGES; i++) {
        replay_change(data, size);
    }

    return 0;
}


int
main(int argc, char **argv)
{
    int  i, bad;

    replay_seed = test_seed();
    (void) fflush(stdout);

    bad = 0;

    for (i = 1; i < argc; i++) {
        bad |= replay_file(argv[i]);
    }

    printf("%d files\n", argc - 1);

    return bad;
}
