/* Records what a process does to the files below one directory, so that a power cut can be acted out afterwards.
 *
 * Preloaded (LD_PRELOAD). Every call that changes a file, a directory, or what of them is on the disk is carried out
 * and then appended to a journal; powercut.py replays it. At the n-th such call the process kills itself instead:
 *
 *     POWERCUT_ROOT      directory whose files are followed
 *     POWERCUT_JOURNAL   file to append to
 *     POWERCUT_AT        n, or 0 for never
 *     POWERCUT_SLOW_US   how long the sync of a directory takes at least: what relies on it has more time to go wrong
 *
 *     entry    op:1 fd:4 a:8 b:8 path:4 data:4, then so many bytes of path and of data; integers in this machine's order
 *
 * A call is in the journal only when it has returned, and what a sync covers is what was in the journal when it began
 * (its `a` is the number of entries by then). So nothing counts as synced too early, and an answer that follows a sync
 * follows its entry. What stdio writes (LevelDB's LOG) and what is written through a mapping is not seen; a writable
 * shared mapping of a followed file is journalled as op '!', which the replay refuses.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { MAX_FDS = 4096 };

struct __attribute__((packed)) entry {
    char op;
    int32_t fd;
    uint64_t a, b;
    uint32_t path_size, data_size;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char root[PATH_MAX];
static size_t root_size;
static int journal = -1;
static uint64_t entries, calls, cut_at;
static useconds_t slow_us;
static char followed[MAX_FDS];

#define REAL(name) ((__typeof__(&name))real(#name))

static void *real(const char *name) { return dlsym(RTLD_NEXT, name); }

__attribute__((constructor)) static void begin(void) {
    const char *directory = getenv("POWERCUT_ROOT"), *path = getenv("POWERCUT_JOURNAL"), *at = getenv("POWERCUT_AT");
    if (directory == NULL || path == NULL || realpath(directory, root) == NULL) return;
    root_size = strlen(root);
    const char *slow = getenv("POWERCUT_SLOW_US");
    cut_at = at == NULL ? 0 : strtoull(at, NULL, 10);
    slow_us = slow == NULL ? 0 : (useconds_t)strtoul(slow, NULL, 10);
    journal = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static int is_followed(int fd) { return journal >= 0 && fd >= 0 && fd < MAX_FDS && followed[fd]; }

/* The absolute form of a path, or an empty string when it is not below the root. */
static const char *resolve(int directory, const char *path, char *resolved) {
    char base[PATH_MAX] = "", link[64];
    resolved[0] = 0;
    if (journal < 0 || path == NULL) return resolved;
    if (path[0] != '/') {
        snprintf(link, sizeof link, directory == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", directory);
        ssize_t size = readlink(link, base, sizeof base - 1);
        if (size < 0) return resolved;
        base[size] = 0;
    }
    int size = snprintf(resolved, PATH_MAX, base[0] ? "%s/%s" : "%s%s", base, path);
    int is_below = size < PATH_MAX && strncmp(resolved, root, root_size) == 0 &&
                   (resolved[root_size] == '/' || resolved[root_size] == 0);
    if (!is_below) resolved[0] = 0;
    return resolved;
}

/* Count a call that is about to be made; at the n-th the lights go out. Returns how many entries there are. */
static uint64_t count_call(void) {
    pthread_mutex_lock(&lock);
    if (++calls == cut_at) {
        syscall(SYS_kill, syscall(SYS_getpid), SIGKILL);
        for (;;) pause();
    }
    uint64_t count = entries;
    pthread_mutex_unlock(&lock);
    return count;
}

static void note(char op, int fd, uint64_t a, uint64_t b, const char *path, const void *data, size_t data_size) {
    int error = errno;
    struct entry entry = {op, fd, a, b, path == NULL ? 0 : (uint32_t)strlen(path), (uint32_t)data_size};
    struct iovec parts[] = {{&entry, sizeof entry}, {(void *)path, entry.path_size}, {(void *)data, data_size}};
    pthread_mutex_lock(&lock);
    syscall(SYS_writev, journal, parts, 3);
    entries++;
    pthread_mutex_unlock(&lock);
    errno = error;
}

/* --- opening and closing ---------------------------------------------------------------------------------------- */

static int open_followed(int directory, const char *path, int flags, mode_t mode) {
    char resolved[PATH_MAX];
    resolve(directory, path, resolved);
    if (resolved[0]) count_call();
    int fd = (int)syscall(SYS_openat, directory, path, flags, mode);
    if (fd >= 0 && fd < MAX_FDS) followed[fd] = 0;
    if (fd >= 0 && resolved[0]) {
        if (fd < MAX_FDS) followed[fd] = 1;
        note(fd < MAX_FDS ? 'o' : '!', fd, (uint64_t)flags, 0, resolved, NULL, 0);
    }
    return fd;
}

#define MODE(flags, last) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | O_TMPFILE)) { \
        va_list arguments; \
        va_start(arguments, last); \
        mode = va_arg(arguments, mode_t); \
        va_end(arguments); \
    }

int open(const char *path, int flags, ...) { MODE(flags, flags) return open_followed(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags, flags) return open_followed(AT_FDCWD, path, flags, mode); }
int openat(int at, const char *path, int flags, ...) { MODE(flags, flags) return open_followed(at, path, flags, mode); }
int openat64(int at, const char *path, int flags, ...) { MODE(flags, flags) return open_followed(at, path, flags, mode); }
int creat(const char *path, mode_t mode) { return open_followed(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int creat64(const char *path, mode_t mode) { return creat(path, mode); }

int close(int fd) {
    if (is_followed(fd)) {
        note('c', fd, 0, 0, NULL, NULL, 0); /* before: the number may be given out again at once */
        followed[fd] = 0;
    }
    return (int)syscall(SYS_close, fd);
}

static int duplicated(int fd, int new_fd) {
    if (new_fd >= 0 && new_fd < MAX_FDS) followed[new_fd] = (char)is_followed(fd);
    if (new_fd >= 0 && is_followed(fd)) note('d', fd, (uint64_t)new_fd, 0, NULL, NULL, 0);
    return new_fd;
}

int dup(int fd) { return duplicated(fd, (int)syscall(SYS_dup, fd)); }
int dup2(int fd, int new_fd) { return duplicated(fd, REAL(dup2)(fd, new_fd)); }
int dup3(int fd, int new_fd, int flags) { return duplicated(fd, REAL(dup3)(fd, new_fd, flags)); }

/* --- bytes ------------------------------------------------------------------------------------------------------ */

static void note_written(int fd, ssize_t size, off_t offset, const void *data) {
    if (size > 0) note('w', fd, (uint64_t)(offset < 0 ? lseek(fd, 0, SEEK_CUR) - size : offset), 0, NULL, data, (size_t)size);
}

ssize_t write(int fd, const void *data, size_t size) {
    if (!is_followed(fd)) return syscall(SYS_write, fd, data, size);
    count_call();
    ssize_t written = syscall(SYS_write, fd, data, size);
    note_written(fd, written, -1, data);
    return written;
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset) {
    if (!is_followed(fd)) return syscall(SYS_pwrite64, fd, data, size, offset);
    count_call();
    ssize_t written = syscall(SYS_pwrite64, fd, data, size, offset);
    note_written(fd, written, offset, data);
    return written;
}

ssize_t pwrite64(int fd, const void *data, size_t size, off_t offset) { return pwrite(fd, data, size, offset); }

ssize_t writev(int fd, const struct iovec *parts, int count) {
    if (!is_followed(fd)) return syscall(SYS_writev, fd, parts, count);
    ssize_t written = 0; /* as so many writes: nothing promises more of them together */
    for (int n = 0; n < count; n++) {
        ssize_t size = write(fd, parts[n].iov_base, parts[n].iov_len);
        if (size < 0) return written ? written : size;
        written += size;
        if ((size_t)size < parts[n].iov_len) break;
    }
    return written;
}

/* Copies within the kernel are refused; whoever tries them falls back to read and write. */
ssize_t sendfile(int out, int in, off_t *offset, size_t size) {
    if (is_followed(out)) return errno = EINVAL, -1;
    return syscall(SYS_sendfile, out, in, offset, size);
}
ssize_t sendfile64(int out, int in, off_t *offset, size_t size) { return sendfile(out, in, offset, size); }

ssize_t copy_file_range(int in, off64_t *from, int out, off64_t *to, size_t size, unsigned flags) {
    if (is_followed(out)) return errno = EINVAL, -1;
    return syscall(SYS_copy_file_range, in, from, out, to, size, flags);
}

int ftruncate(int fd, off_t size) {
    if (!is_followed(fd)) return (int)syscall(SYS_ftruncate, fd, size);
    count_call();
    int result = (int)syscall(SYS_ftruncate, fd, size);
    if (result == 0) note('t', fd, (uint64_t)size, 0, NULL, NULL, 0);
    return result;
}
int ftruncate64(int fd, off_t size) { return ftruncate(fd, size); }

int truncate(const char *path, off_t size) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    int result = ftruncate(fd, size), error = errno;
    close(fd);
    errno = error;
    return result;
}
int truncate64(const char *path, off_t size) { return truncate(path, size); }

int posix_fallocate(int fd, off_t offset, off_t size) {
    if (is_followed(fd)) count_call();
    if (syscall(SYS_fallocate, fd, 0, offset, size) != 0) return errno;
    if (is_followed(fd)) note('a', fd, (uint64_t)(offset + size), 0, NULL, NULL, 0);
    return 0;
}
int posix_fallocate64(int fd, off_t offset, off_t size) { return posix_fallocate(fd, offset, size); }

void *mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset) {
    if (is_followed(fd) && (flags & MAP_SHARED) && (protection & PROT_WRITE)) note('!', fd, 0, 0, "mmap", NULL, 0);
    return (void *)syscall(SYS_mmap, address, size, protection, flags, fd, offset);
}
void *mmap64(void *address, size_t size, int protection, int flags, int fd, off_t offset) {
    return mmap(address, size, protection, flags, fd, offset);
}

/* --- the disk --------------------------------------------------------------------------------------------------- */

static int synced(int fd, long number) {
    if (!is_followed(fd)) return (int)syscall(number, fd);
    uint64_t covered = count_call();
    struct stat status;
    if (slow_us && fstat(fd, &status) == 0 && S_ISDIR(status.st_mode)) usleep(slow_us);
    int result = (int)syscall(number, fd);
    if (result == 0) note('s', fd, covered, 0, NULL, NULL, 0);
    return result;
}

int fsync(int fd) { return synced(fd, SYS_fsync); }
int fdatasync(int fd) { return synced(fd, SYS_fdatasync); }

/* --- names ------------------------------------------------------------------------------------------------------ */

/* Carry out a call on one or two paths; journal it if it succeeds. */
#define NAMES(op, at, path, to_at, to, call) \
    char resolved[PATH_MAX], target[PATH_MAX]; \
    resolve(at, path, resolved); \
    resolve(to_at, to, target); \
    if (resolved[0] || target[0]) count_call(); \
    int result = (int)(call); \
    if (result == 0 && (resolved[0] || target[0])) note(op, -1, 0, 0, resolved, target, strlen(target)); \
    return result

int renameat2(int at, const char *path, int to_at, const char *to, unsigned flags) {
    NAMES(flags ? '!' : 'r', at, path, to_at, to, syscall(SYS_renameat2, at, path, to_at, to, flags));
}
int rename(const char *path, const char *to) { return renameat2(AT_FDCWD, path, AT_FDCWD, to, 0); }
int renameat(int at, const char *path, int to_at, const char *to) { return renameat2(at, path, to_at, to, 0); }

int linkat(int at, const char *path, int to_at, const char *to, int flags) {
    NAMES('l', at, path, to_at, to, syscall(SYS_linkat, at, path, to_at, to, flags));
}
int link(const char *path, const char *to) { return linkat(AT_FDCWD, path, AT_FDCWD, to, 0); }

int unlinkat(int at, const char *path, int flags) {
    NAMES('u', at, path, at, NULL, syscall(SYS_unlinkat, at, path, flags));
}
int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }

int mkdirat(int at, const char *path, mode_t mode) {
    NAMES('m', at, path, at, NULL, syscall(SYS_mkdirat, at, path, mode));
}
int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }
