// What sources ask the preprocessor for.
#pragma once
#define _POSIX_VERSION 200809L
#define _POSIX_TIMERS 200809L
