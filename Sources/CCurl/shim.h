#ifndef COVE_CCURL_SHIM_H
#define COVE_CCURL_SHIM_H

#include <curl/curl.h>

// The setters and getters of libcurl take variable arguments, which Swift can't call: one function per type.
static inline CURLcode cove_curl_set_long(CURL *handle, CURLoption option, long value) {
    return curl_easy_setopt(handle, option, value);
}
static inline CURLcode cove_curl_set_offset(CURL *handle, CURLoption option, curl_off_t value) {
    return curl_easy_setopt(handle, option, value);
}
static inline CURLcode cove_curl_set_text(CURL *handle, CURLoption option, const char *value) {
    return curl_easy_setopt(handle, option, value);
}
static inline CURLcode cove_curl_set_pointer(CURL *handle, CURLoption option, void *value) {
    return curl_easy_setopt(handle, option, value);
}
static inline CURLcode cove_curl_set_transfer(CURL *handle, CURLoption option,
                                              size_t (*call)(char *, size_t, size_t, void *)) {
    return curl_easy_setopt(handle, option, call);
}
static inline CURLcode cove_curl_set_seek(CURL *handle, int (*call)(void *, curl_off_t, int)) {
    return curl_easy_setopt(handle, CURLOPT_SEEKFUNCTION, call);
}
// Called before a request is sent, and again where libcurl sends it once more on another line.
static inline CURLcode cove_curl_set_before(CURL *handle, int (*call)(void *, char *, char *, int, int)) {
    return curl_easy_setopt(handle, CURLOPT_PREREQFUNCTION, call);
}
static inline CURLcode cove_curl_get_long(CURL *handle, CURLINFO info, long *value) {
    return curl_easy_getinfo(handle, info, value);
}
static inline CURLcode cove_curl_get_pointer(CURL *handle, CURLINFO info, void **value) {
    return curl_easy_getinfo(handle, info, value);
}
static inline CURLMcode cove_curl_multi_set_long(CURLM *multi, CURLMoption option, long value) {
    return curl_multi_setopt(multi, option, value);
}
// The result is a member of a union.
static inline CURLcode cove_curl_result(const CURLMsg *message) { return message->data.result; }
// A macro that is no constant to Swift.
static inline size_t cove_curl_abort_reading(void) { return CURL_READFUNC_ABORT; }

#endif
