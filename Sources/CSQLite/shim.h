#ifndef COVE_CSQLITE_SHIM_H
#define COVE_CSQLITE_SHIM_H

#include <sqlite3.h>

// SQLITE_STATIC and SQLITE_TRANSIENT are casts of integers to function pointers, which Swift can't import.
static inline int cove_sqlite_bind_blob_transient(sqlite3_stmt *s, int i, const void *bytes, int count) {
    return sqlite3_bind_blob(s, i, bytes, count, SQLITE_TRANSIENT);
}
static inline int cove_sqlite_bind_text_transient(sqlite3_stmt *s, int i, const char *text, int count) {
    return sqlite3_bind_text(s, i, text, count, SQLITE_TRANSIENT);
}
// A function of variable arguments, which Swift can't call; before anything else is asked of the library.
static inline int cove_sqlite_leave_memory_uncounted(void) { return sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0); }
// The caller keeps the bytes alive until the statement is reset.
static inline int cove_sqlite_bind_blob_static(sqlite3_stmt *s, int i, const void *bytes, int count) {
    return sqlite3_bind_blob(s, i, bytes, count, SQLITE_STATIC);
}

#endif
