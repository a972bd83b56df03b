# SPDX-License-Identifier: Apache-2.0
# Is there a CUDA compiler? TG_HAVE_CUDA says so, and then the CUDA sources are built; without one all else is, and
# a message says what is left out. No card is needed to build. A sanitizer's build goes without: its runtime and
# CUDA's map the same addresses.
#   -DTG_CUDA=OFF              leaves CUDA out
#   -DTG_CUDA_ARCHITECTURES=   machine code for these, PTX for what is newer than the last
option(TG_CUDA "Build what runs on a GPU when nvcc is here" ON)
set(TG_CUDA_ARCHITECTURES "80-real;90" CACHE STRING "Compute capabilities to compile for")
set(TG_HAVE_CUDA OFF)
find_program(TG_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
if(NOT TG_CUDA)
  message(STATUS "CUDA: left out (TG_CUDA=OFF)")
elseif(TG_SANITIZE)
  message(STATUS "CUDA: left out of a sanitizer's build")
elseif(NOT TG_NVCC)
  message(STATUS "CUDA: no nvcc here (PATH, CUDA_HOME, /usr/local/cuda): the GPU backend, its benchmark and examples are left out")
else()
  set(CMAKE_CUDA_COMPILER ${TG_NVCC})
  set(CMAKE_CUDA_ARCHITECTURES ${TG_CUDA_ARCHITECTURES})
  set(CMAKE_CUDA_STANDARD 17)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  enable_language(CUDA)
  find_package(CUDAToolkit REQUIRED)
  set(TG_HAVE_CUDA ON)
  message(STATUS "CUDA: ${TG_NVCC} ${CMAKE_CUDA_COMPILER_VERSION}, for ${TG_CUDA_ARCHITECTURES}")
  add_compile_options($<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Wundef>)
  if(TG_WERROR)
    add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-Werror all-warnings>")
  endif()
endif()
