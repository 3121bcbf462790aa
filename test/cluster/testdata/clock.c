// A wrong wall clock for one process, preloaded into it. The file that BELFRY_TEST_CLOCK names holds how many seconds
// the clock is off. It is mapped, not read, because PostgreSQL reads the clock in signal handlers too.

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile const int64_t *off;

__attribute__((constructor)) static void map_file(void) {
    const char *path = getenv("BELFRY_TEST_CLOCK");
    int file = path ? open(path, O_RDONLY) : -1;
    if (file < 0) abort();
    void *map = mmap(NULL, sizeof *off, PROT_READ, MAP_SHARED, file, 0);
    if (map == MAP_FAILED) abort();
    off = map;
    close(file);
}

int clock_gettime(clockid_t id, struct timespec *t) {
    int failed = (int)syscall(SYS_clock_gettime, id, t);
    if (!failed && off && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) t->tv_sec += *off;
    return failed;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone) {
    struct timespec now;
    (void)zone;
    int failed = clock_gettime(CLOCK_REALTIME, &now);
    if (!failed) *t = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
    return failed;
}

time_t time(time_t *t) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (t) *t = now.tv_sec;
    return now.tv_sec;
}
