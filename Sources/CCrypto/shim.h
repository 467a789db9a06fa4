#ifndef COVE_CCRYPTO_SHIM_H
#define COVE_CCRYPTO_SHIM_H

#include <openssl/evp.h>
#include <openssl/hmac.h>

#endif
