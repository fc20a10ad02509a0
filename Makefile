
# make            what nginx loads and runs: module and program
# make demo       everything on a bare Debian 12, one chat on the terminal
# make test       everything, tested
# BUILD=DIR       other output directory; SAN=1 ASan and UBSan

BUILD  ?= build
CC     ?= gcc
AR     ?= ar
SAN    ?=

ROOMS  = base shm file text api backend model engine
WARN   = -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
         -Wpointer-arith -Wvla -Werror
OPT    ?= -O2
CFLAGS ?= $(OPT) -g
MST_CFLAGS = -std=gnu11 -fPIC -fvisibility=hidden -ffp-contract=off \
             -fno-strict-aliasing $(WARN) -Isrc -MMD -MP -D_GNU_SOURCE
LIBS   = -ljansson -lm -lpthread -ldl

ifneq ($(SAN),)
MST_CFLAGS += -fsanitize=address,undefined -fno-omit-frame-pointer \
              -fno-sanitize-recover=undefined
LDFLAGS    += -fsanitize=address,undefined
endif

SRCS   = $(foreach r,$(ROOMS),$(sort $(wildcard src/$(r)/*.c)))
OBJS   = $(SRCS:%.c=$(BUILD)/%.o)
TOOLS  = $(sort $(wildcard src/tools/*.c))
TESTS  = $(sort $(wildcard t/unit/*_test.c))
UNITS  = $(TESTS:t/unit/%.c=$(BUILD)/t/%)

# the layout of the shared segment is the hash of the headers that define it
LAYOUT = $(shell cat src/shm/*.h src/base/mst_params.h \
             src/base/mst_outcome.h | sha256sum | cut -c1-16)

.PHONY: all lib unit clean

all: $(BUILD)/mistral module

lib: $(BUILD)/libmst.a

$(BUILD)/libmst.a: $(OBJS)
	@rm -f $@
	$(AR) rcs $@ $^

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(MST_CFLAGS) $(CFLAGS) $(FLAGS_$(notdir $*)) -c -o $@ $<

FLAGS_mst_shm = -DMST_LAYOUT=0x$(LAYOUT)ull

$(BUILD)/mistral: $(TOOLS:%.c=$(BUILD)/%.o) $(BUILD)/libmst.a
	$(CC) $(LDFLAGS) -o $@ $^ $(LIBS)

$(BUILD)/t/%: t/unit/%.c $(BUILD)/libmst.a
	@mkdir -p $(@D)
	$(CC) $(MST_CFLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $< $(BUILD)/libmst.a \
	    -lcmocka $(LIBS)

unit: $(UNITS)
	@set -e; for t in $(UNITS); do $$t; done

module: ; @true

clean:
	rm -rf $(BUILD)

-include $(OBJS:.o=.d) $(TOOLS:%.c=$(BUILD)/%.d) $(UNITS:%=%.d)
