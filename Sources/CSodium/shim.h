#ifndef COVE_CSODIUM_SHIM_H
#define COVE_CSODIUM_SHIM_H

#include <sodium.h>

#endif
