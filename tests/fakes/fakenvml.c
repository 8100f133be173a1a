// SPDX-License-Identifier: Apache-2.0
// A stand-in for libnvidia-ml.so.1: boards whose power is a square wave of CLOCK_MONOTONIC, or what the file
// named by FAKENVML_LOAD says: lines "seconds watts", each holding until the next one, read anew when it has grown.
// FAKENVML_CONFIG names a file of "key value" lines, read at every nvmlInit; the keys are the fields of `config`.
#include <fcntl.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { OK = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, NO_PERMISSION = 4, NOT_FOUND = 6,
       DRIVER_NOT_LOADED = 9, LOST = 15 };

static struct {
    double gpus, arch, cc_major, cc_minor, high_w, low_w, high_s, low_s, counter_s, sample_s;
    double has_counter, has_samples, has_average, has_limits, board_scope, has_memory, no_permission, init_error;
    double may_set, set_ms, ignores_cap, other_limit_w;
    double lost_after_s, mig, mixed, min_w, max_w, default_w, now_w, base_mj, read_ms;
    double sample_window_ms, sample_lag_ms, instant_ms, counter_sees, virtualization;
} config;

static const struct { const char *name; double *place; double standard; } keys[] = {
    {"gpus", &config.gpus, 2}, {"arch", &config.arch, 9}, {"cc_major", &config.cc_major, 9},
    {"cc_minor", &config.cc_minor, 0}, {"high_w", &config.high_w, 690}, {"low_w", &config.low_w, 125},
    {"high_s", &config.high_s, 0.16}, {"low_s", &config.low_s, 0.04}, {"counter_s", &config.counter_s, 0.1},
    {"sample_s", &config.sample_s, 0.02}, {"has_counter", &config.has_counter, 1},
    {"has_samples", &config.has_samples, 1}, {"has_average", &config.has_average, 1},
    {"has_limits", &config.has_limits, 1}, {"board_scope", &config.board_scope, 1},
    {"has_memory", &config.has_memory, 1}, {"no_permission", &config.no_permission, 0},
    {"init_error", &config.init_error, 0}, {"lost_after_s", &config.lost_after_s, 1e18}, {"mig", &config.mig, 0},
    {"mixed", &config.mixed, 0},
    {"may_set", &config.may_set, 1}, {"set_ms", &config.set_ms, 0}, {"ignores_cap", &config.ignores_cap, 0},
    {"other_limit_w", &config.other_limit_w, 1e9}, {"min_w", &config.min_w, 200}, {"max_w", &config.max_w, 700},
    {"default_w", &config.default_w, 700}, {"now_w", &config.now_w, 500}, {"base_mj", &config.base_mj, 0}, {"read_ms", &config.read_ms, 0},
    {"sample_window_ms", &config.sample_window_ms, 40}, {"sample_lag_ms", &config.sample_lag_ms, 15},
    {"instant_ms", &config.instant_ms, 0}, {"counter_sees", &config.counter_sees, 1},
    {"virtualization", &config.virtualization, 0},
};

static int opened;
static double opened_s;
typedef struct { int index, slice; } Board;  // slice 0: the board itself
static Board boards[64][8];

static double clock_s(clockid_t id) {
    struct timespec t;
    clock_gettime(id, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static struct { double at, watts, joules; } steps[100000];
static int step_count;
static long long steps_size = -1;

static int read_steps(void) {
    const char *path = getenv("FAKENVML_LOAD");
    struct stat about;
    if (!path || stat(path, &about)) return 0;
    if (about.st_size != steps_size) {
        FILE *file = fopen(path, "r");
        double at, watts;
        step_count = 0;
        while (file && step_count < 100000 && fscanf(file, "%lf %lf", &at, &watts) == 2) {
            steps[step_count].at = at, steps[step_count].watts = watts;
            steps[step_count].joules = step_count ? steps[step_count - 1].joules + (at - steps[step_count - 1].at) * steps[step_count - 1].watts : 0;
            step_count++;
        }
        if (file) fclose(file);
        steps_size = about.st_size;
    }
    return step_count;
}

static double energy_j(double t) {  // since time zero, or since the file's first line
    if (read_steps()) {
        int low = 0, high = step_count;
        while (high - low > 1) {
            int middle = (low + high) / 2;
            if (steps[middle].at <= t) low = middle; else high = middle;
        }
        return steps[low].joules + (t - steps[low].at) * steps[low].watts;
    }
    double period = config.high_s + config.low_s, turns = floor(t / period), x = t - turns * period;
    double partial = x < config.high_s ? x * config.high_w
                                       : config.high_s * config.high_w + (x - config.high_s) * config.low_w;
    return turns * (config.high_s * config.high_w + config.low_s * config.low_w) + partial;
}

// Caps. CONFIG.setters is a log of every call that set or tried to set one: "monotonic_s pid board mW result".
// It is the state too, so any number of processes agree, and no kill can come between the two.
static double cap_w(int board) {
    char path[4096];
    snprintf(path, sizeof path, "%s.setters", getenv("FAKENVML_CONFIG") ? getenv("FAKENVML_CONFIG") : "");
    double t, now = config.now_w;
    unsigned pid, mw;
    int b, result;
    FILE *file = fopen(path, "r");
    while (file && fscanf(file, "%lf %u %d %u %d", &t, &pid, &b, &mw, &result) == 5)
        if (b == board && !result && !config.ignores_cap) now = mw / 1e3;
    if (file) fclose(file);
    return now;
}
static double in_force_w(int board) { return fmin(cap_w(board), config.other_limit_w); }

static double mean_w(double a, double b) { return (energy_j(b) - energy_j(a)) / (b - a); }

static int state(void) {
    if (!opened) return UNINITIALIZED;
    if (config.no_permission) return NO_PERMISSION;
    return clock_s(CLOCK_MONOTONIC) - opened_s > config.lost_after_s ? LOST : OK;
}
#define CHECK do { int s = state(); if (s) return s; } while (0)

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    for (unsigned i = 0; i < sizeof keys / sizeof *keys; i++) *keys[i].place = keys[i].standard;
    const char *path = getenv("FAKENVML_CONFIG");
    FILE *file = path ? fopen(path, "r") : NULL;
    char name[64];
    double value;
    while (file && fscanf(file, "%63s %lf", name, &value) == 2)
        for (unsigned i = 0; i < sizeof keys / sizeof *keys; i++)
            if (!strcmp(name, keys[i].name)) *keys[i].place = value;
    if (file) fclose(file);
    if (config.init_error) return (int)config.init_error;
    if (!opened++) opened_s = clock_s(CLOCK_MONOTONIC);
    for (int i = 0; i < 64; i++)
        for (int j = 0; j < 8; j++) boards[i][j] = (Board){i, j};
    return OK;
}
int nvmlShutdown(void) { if (!opened) return UNINITIALIZED; opened--; return OK; }
const char *nvmlErrorString(int code) {
    switch (code) {
    case UNINITIALIZED: return "Uninitialized";
    case NOT_SUPPORTED: return "Not Supported";
    case NO_PERMISSION: return "Insufficient Permissions";
    case DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case LOST: return "GPU is lost";
    default: return "Fake error";
    }
}
int nvmlSystemGetDriverVersion(char *out, unsigned size) {
    if (!opened) return UNINITIALIZED;
    snprintf(out, size, "999.01");
    return OK;
}
int nvmlDeviceGetCount_v2(unsigned *out) { if (!opened) return UNINITIALIZED; *out = (unsigned)config.gpus; return OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, Board **out) {
    if (i >= config.gpus) return INVALID;
    *out = &boards[i][0];
    return OK;
}
int nvmlDeviceGetUUID(Board *b, char *out, unsigned size) {
    if (b->slice) snprintf(out, size, "MIG-%08x-0000-0000-0000-%012d", b->index + 0xa0, b->slice);
    else snprintf(out, size, "GPU-%08x-1111-2222-3333-444444444444", b->index + 0xb0);
    return OK;
}
int nvmlDeviceGetName(Board *b, char *out, unsigned size) {
    snprintf(out, size, config.mixed && b->index % 2 ? "Fake A10" : "Fake H200");
    return OK;
}
int nvmlDeviceGetArchitecture(Board *b, unsigned *out) { (void)b; *out = (unsigned)config.arch; return OK; }
int nvmlDeviceGetCudaComputeCapability(Board *b, int *major, int *minor) {
    (void)b;
    *major = (int)config.cc_major, *minor = (int)config.cc_minor;
    return OK;
}
int nvmlDeviceGetMigMode(Board *b, unsigned *now, unsigned *pending) {
    (void)b;
    *now = *pending = config.mig > 0;
    return OK;
}
int nvmlDeviceGetVirtualizationMode(Board *b, int *out) { (void)b; *out = (int)config.virtualization; return OK; }
int nvmlDeviceGetMaxMigDeviceCount(Board *b, unsigned *out) { (void)b; *out = 7; return OK; }
int nvmlDeviceGetMigDeviceHandleByIndex(Board *b, unsigned i, Board **out) {
    if (i >= config.mig) return NOT_FOUND;
    *out = &boards[b->index][i + 1];
    return OK;
}
int nvmlDeviceGetTotalEnergyConsumption(Board *b, unsigned long long *out) {
    (void)b;
    CHECK;
    if (!config.has_counter) return NOT_SUPPORTED;
    double t = clock_s(CLOCK_MONOTONIC), until = clock_s(CLOCK_THREAD_CPUTIME_ID) + config.read_ms / 1e3;
    while (clock_s(CLOCK_THREAD_CPUTIME_ID) < until) {}  // a real driver is busy for milliseconds
    t = floor(t / config.counter_s) * config.counter_s;
    double joules = energy_j(t);
    if (config.counter_sees < 1) {  // a counter that looks at a part of each period and takes it for the whole
        static double counted, until_s;
        if (!until_s) until_s = t;
        for (; until_s < t - config.counter_s / 2; until_s += config.counter_s)
            counted += config.counter_s * mean_w(until_s, until_s + config.counter_sees * config.counter_s);
        joules = counted;
    }
    *out = (unsigned long long)(config.base_mj + joules * 1e3);
    return OK;
}
int nvmlDeviceGetPowerUsage(Board *b, unsigned *out) {
    (void)b;
    CHECK;
    double t = floor(clock_s(CLOCK_MONOTONIC) / 0.1) * 0.1;
    int is_mean = config.arch >= 7 && !(config.cc_major == 8 && config.cc_minor == 0);
    *out = (unsigned)(1e3 * (is_mean ? mean_w(t - 1, t) : mean_w(t - 0.001, t)));
    return OK;
}
typedef struct { unsigned long long stamp; union { double d; unsigned u; unsigned long long ull; } value; } Sample;
int nvmlDeviceGetSamples(Board *b, int type, unsigned long long after, int *value_type, unsigned *count, Sample *out) {
    (void)b;
    CHECK;
    if (!config.has_samples || type != 0) return NOT_SUPPORTED;
    double now = clock_s(CLOCK_MONOTONIC), wall = clock_s(CLOCK_REALTIME) - now;
    unsigned n = 0;
    for (long k = (long)((now - 2.4) / config.sample_s) + 1; k * config.sample_s <= now; k++) {
        double t = k * config.sample_s, late = t - config.sample_lag_ms / 1e3, half = config.sample_window_ms / 2e3;
        if (late + half > now) break;  // it cannot know what is still to come
        unsigned long long stamp = (unsigned long long)((t + wall) * 1e6);
        if (stamp <= after) continue;
        if (out && n >= *count) break;
        if (out) { out[n].stamp = stamp; out[n].value.ull = 0; out[n].value.u = (unsigned)(1e3 * mean_w(late - half, late + half)); }
        n++;
    }
    *value_type = 1;
    *count = n;
    return n ? OK : NOT_FOUND;
}
typedef struct { unsigned field, scope; long long stamp, latency; int value_type, result;
                 union { double d; unsigned u; unsigned long long ull; } value; } Field;
int nvmlDeviceGetFieldValues(Board *b, int count, Field *fields) {
    (void)b;
    CHECK;
    double t = floor(clock_s(CLOCK_MONOTONIC) / 0.1) * 0.1;
    for (int i = 0; i < count; i++) {
        Field *f = &fields[i];
        f->value_type = 1, f->result = NOT_SUPPORTED, f->value.ull = 0;
        double watts = -1;
        if (f->field == 185 && config.has_average) {
            if (f->scope == 0 && config.board_scope) watts = mean_w(t - 1, t);
            if (f->scope == 1 && !config.board_scope) watts = 100 + mean_w(t - 1, t);
            if (f->scope == 2 && config.has_memory) watts = 39;
        } else if (f->field == 186) {
            watts = config.instant_ms ? mean_w(t - config.instant_ms / 1e3, t) : 1e6;  // whoever integrates it shall see it
        } else if (config.has_limits && f->field >= 187 && f->field <= 190 && f->scope == 0) {
            watts = f->field == 187 ? config.min_w : f->field == 188 ? config.max_w
                  : f->field == 189 ? config.default_w : in_force_w(b->index);
        }
        if (watts >= 0) f->result = OK, f->value.u = (unsigned)(watts * 1e3);
    }
    return OK;
}
int nvmlDeviceGetPowerManagementLimitConstraints(Board *b, unsigned *min, unsigned *max) {
    (void)b;
    *min = (unsigned)(config.min_w * 1e3), *max = (unsigned)(config.max_w * 1e3);
    return OK;
}
int nvmlDeviceGetPowerManagementDefaultLimit(Board *b, unsigned *out) { (void)b; *out = (unsigned)(config.default_w * 1e3); return OK; }
int nvmlDeviceGetEnforcedPowerLimit(Board *b, unsigned *out) { *out = (unsigned)(in_force_w(b->index) * 1e3); return OK; }
int nvmlDeviceGetPowerManagementLimit(Board *b, unsigned *out) { CHECK; *out = (unsigned)round(cap_w(b->index) * 1e3); return OK; }
int nvmlDeviceSetPowerManagementLimit(Board *b, unsigned mw) {
    CHECK;
    int result = !config.may_set && !getenv("FAKENVML_IS_ROOT") ? NO_PERMISSION
               : mw < config.min_w * 1e3 || mw > config.max_w * 1e3 ? INVALID : OK;
    char path[4096], line[128];
    snprintf(path, sizeof path, "%s.setters", getenv("FAKENVML_CONFIG"));
    if (config.set_ms) nanosleep(&(struct timespec){0, (long)(config.set_ms * 1e6)}, NULL);
    int n = snprintf(line, sizeof line, "%.6f %d %d %u %d\n", clock_s(CLOCK_MONOTONIC), getpid(), b->index, mw, result);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0666);
    if (fd < 0 || write(fd, line, (size_t)n) != n) result = 999;
    close(fd);
    return result;
}

// What other energy meters ask for before they look at energy.
int nvmlDeviceGetMemoryInfo(Board *b, unsigned long long *out) {  // total, free, used
    (void)b;
    out[0] = 141ull << 30, out[1] = 140ull << 30, out[2] = 1ull << 30;
    return OK;
}
int nvmlDeviceGetTemperature(Board *b, int sensor, unsigned *out) { (void)b; (void)sensor; *out = 50; return OK; }
int nvmlDeviceGetUtilizationRates(Board *b, unsigned *out) { (void)b; out[0] = 80, out[1] = 40; return OK; }
int nvmlDeviceGetComputeMode(Board *b, unsigned *out) { (void)b; *out = 0; return OK; }
int nvmlDeviceGetComputeRunningProcesses_v3(Board *b, unsigned *count, void *out) {
    (void)b; (void)out;
    *count = 0;
    return OK;
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(Board *b, unsigned *count, void *out) {
    return nvmlDeviceGetComputeRunningProcesses_v3(b, count, out);
}
