// Tells ThreadSanitizer what it does not see of Swift's own libraries, in the process that it is preloaded into: they are not
// instrumented, so that what one thread does before another one would count as a race between them.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>

#define SWIFT __attribute__((swiftcall))
#define ASYNC __attribute__((swiftasynccall))
#define SELF __attribute__((swift_context)) void *self
#define CONTEXT __attribute__((swift_async_context)) void *context

// Absent in the programs that the tests start.
extern void __tsan_acquire(void *) __attribute__((weak));
extern void __tsan_release(void *) __attribute__((weak));

static void acquire(void *place) {
    if (__tsan_acquire && place) __tsan_acquire(place);
}
static void release(void *place) {
    if (__tsan_release && place) __tsan_release(place);
}

// Mutex: who takes or leaves one that nobody waits for does so by an atomic instruction in the program itself, which is
// seen. Where somebody waits, these do: _MutexHandle._lockSlow(UInt32) and ._unlockSlow().
#define LOCK "$s15Synchronization12_MutexHandleV9_lockSlowyys6UInt32VF"
#define UNLOCK "$s15Synchronization12_MutexHandleV11_unlockSlowyyF"
typedef SWIFT void (*lock_type)(uint32_t thread, SELF);
typedef SWIFT void (*unlock_type)(SELF);

SWIFT void lock_slow(uint32_t thread, SELF) __asm__(LOCK);
SWIFT void lock_slow(uint32_t thread, SELF) {
    ((lock_type)dlsym(RTLD_NEXT, LOCK))(thread, self);
    acquire(self);
}

SWIFT void unlock_slow(SELF) __asm__(UNLOCK);
SWIFT void unlock_slow(SELF) {
    release(self);
    ((unlock_type)dlsym(RTLD_NEXT, UNLOCK))(self);
}

// CheckedContinuation: a task that was resumed before it came to wait goes on at once, without being queued. A continuation
// has a reference to an object, behind the head of which comes the task; after the wait its code goes back to where it belongs.
#define RETURNING "$sScC6resume9returningyxn_tF"
#define THROWING "$sScC6resume8throwingyq_n_tF"
#define SWITCH "swift_task_switch"
typedef SWIFT void (*resume_type)(void *value, void *type, SELF);
typedef ASYNC void (*switch_type)(CONTEXT, void *function, void *executor, void *witness);

extern SWIFT void *swift_task_getCurrent(void) __attribute__((weak));

SWIFT void resume_returning(void *value, void *type, SELF) __asm__(RETURNING);
SWIFT void resume_returning(void *value, void *type, SELF) {
    release((*(void ***)self)[2]);
    ((resume_type)dlsym(RTLD_NEXT, RETURNING))(value, type, self);
}

SWIFT void resume_throwing(void *error, void *type, SELF) __asm__(THROWING);
SWIFT void resume_throwing(void *error, void *type, SELF) {
    release((*(void ***)self)[2]);
    ((resume_type)dlsym(RTLD_NEXT, THROWING))(error, type, self);
}

ASYNC void task_switch(CONTEXT, void *function, void *executor, void *witness) __asm__(SWITCH);
ASYNC void task_switch(CONTEXT, void *function, void *executor, void *witness) {
    acquire(swift_task_getCurrent());
    return ((switch_type)dlsym(RTLD_NEXT, SWITCH))(context, function, executor, witness);
}
