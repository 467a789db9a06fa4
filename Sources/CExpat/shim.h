#ifndef COVE_CEXPAT_SHIM_H
#define COVE_CEXPAT_SHIM_H

#include <expat.h>

#endif
