# SPDX-License-Identifier: Apache-2.0
# What is built for a GPU, where there is an nvcc; no card is needed to build. TG_HAS_CUDA says whether there is.
# The kernel of the engine's GPU backend, and images with opcodes of a program: fat binaries with code for sm_80 and
# sm_90 and PTX for what is newer, put into the library or the program as bytes. Without nvcc the library is the same but
# for those bytes, and bench_gpu and the examples for a GPU are left out.
#   tg_cuda_image(TARGET SYMBOL SOURCE [flags...]) adds the image of SOURCE to TARGET as SYMBOL[] and SYMBOL_end[]
#   tg_device_sources(TARGET) adds the kernel's text to TARGET, for bodies that are compiled at run time; needs no nvcc
# TG_CUDA_PROGRAMS says whether programs in CUDA C++ are built too: a sanitizer's build goes without, its runtime
# and CUDA's map the same addresses.
set(TG_CUDA AUTO CACHE STRING "Build the GPU kernel: AUTO (where nvcc is found), ON (must be found) or OFF")
set_property(CACHE TG_CUDA PROPERTY STRINGS AUTO ON OFF)
set(TG_CUDA_ARCHITECTURES 80 90 CACHE STRING "Processors the kernel has code for; PTX of the first serves newer ones")
if(NOT TG_CUDA STREQUAL "OFF")
  find_program(TG_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda /opt/cuda PATH_SUFFIXES bin)
endif()
if(TG_CUDA STREQUAL "ON" AND NOT TG_NVCC)
  message(FATAL_ERROR "TG_CUDA=ON: no nvcc found; set CUDA_HOME")
endif()
set(TG_CUDA_PROGRAMS OFF)
if(TG_NVCC AND NOT TG_CUDA STREQUAL "OFF")
  set(TG_HAS_CUDA ON)
  message(STATUS "GPU kernel: ${TG_NVCC}")
else()
  set(TG_HAS_CUDA OFF)
  message(STATUS "GPU kernel: not built (no nvcc); the backend cuda, bench_gpu and the GPU examples are left out")
endif()
if(TG_HAS_CUDA AND NOT TG_SANITIZE)
  set(CMAKE_CUDA_COMPILER ${TG_NVCC})
  set(CMAKE_CUDA_ARCHITECTURES ${TG_CUDA_ARCHITECTURES})
  set(CMAKE_CUDA_STANDARD 17)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  enable_language(CUDA)
  find_package(CUDAToolkit REQUIRED)
  set(TG_CUDA_PROGRAMS ON)
  add_compile_options($<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Wundef>)
  if(TG_WERROR)
    add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-Werror all-warnings>")
  endif()
endif()

function(tg_cuda_image target symbol source)
  list(GET TG_CUDA_ARCHITECTURES 0 oldest)
  set(codes -gencode=arch=compute_${oldest},code=compute_${oldest})
  foreach(arch ${TG_CUDA_ARCHITECTURES})
    list(APPEND codes -gencode=arch=compute_${arch},code=sm_${arch})
  endforeach()
  set(image ${CMAKE_CURRENT_BINARY_DIR}/${symbol}.fatbin)
  string(REPLACE " " "\\ " in_depfile "${image}") # nvcc writes the name of -MT as it is
  add_custom_command(OUTPUT ${image}
    COMMAND ${TG_NVCC} -std=c++17 -O3 -fatbin
      -I ${PROJECT_SOURCE_DIR}/include -I ${PROJECT_SOURCE_DIR}/src ${ARGN}
      ${codes}
      -MD -MF ${image}.d -MT ${in_depfile} -o ${image} ${source}
    DEPENDS ${source} DEPFILE ${image}.d VERBATIM COMMENT "GPU kernel ${symbol}")
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${symbol}.S @ONLY CONTENT
"        .section .rodata
        .global ${symbol}
        .global ${symbol}_end
        .balign 64
${symbol}:
        .incbin \"${image}\"
${symbol}_end:
        .section .note.GNU-stack,\"\",%progbits
")
  set_source_files_properties(${CMAKE_CURRENT_BINARY_DIR}/${symbol}.S PROPERTIES OBJECT_DEPENDS ${image})
  target_sources(${target} PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/${symbol}.S)
endfunction()

function(tg_device_sources target)
  file(GLOB dispatchers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/src/engine/dispatch*.h)
  set(names ${dispatchers} engine/cuda.cu engine/cuda_warp.cuh engine/device.h engine/device_op.h engine/device_born.h engine/device_packed.h engine/counts.h
    engine/ops.h base/atomic.h ring/legal.h ring/packed.h)
  foreach(public device.cuh abi.h engine.h hd.h levels.h tenants.h ring.h)
    list(APPEND names tidegate/${public})
  endforeach()
  set(files "")
  set(texts "")
  set(table "")
  set(number 0)
  foreach(name ${names} stdint.h stddef.h stdbool.h errno.h cstdint cstddef)
    if(name MATCHES "^tidegate/")
      set(file ${PROJECT_SOURCE_DIR}/include/${name})
    elseif(name MATCHES "/")
      set(file ${PROJECT_SOURCE_DIR}/src/${name})
    else()
      set(file ${PROJECT_SOURCE_DIR}/src/engine/cuda_std.cuh)
    endif()
    list(APPEND files ${file})
    string(APPEND texts ".Lname${number}: .asciz \"${name}\"\n.Ltext${number}: .incbin \"${file}\"\n.byte 0\n")
    string(APPEND table ".8byte .Lname${number}, .Ltext${number}\n")
    math(EXPR number "${number} + 1")
  endforeach()
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/tg_device_sources.S @ONLY CONTENT
"        .section .rodata
${texts}
        .section .data.rel.ro,\"aw\",%progbits
        .balign 8
        .global tg_device_sources
tg_device_sources:
${table}
        .8byte 0, 0
        .section .note.GNU-stack,\"\",%progbits
")
  set_source_files_properties(${CMAKE_CURRENT_BINARY_DIR}/tg_device_sources.S PROPERTIES OBJECT_DEPENDS "${files}")
  target_sources(${target} PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/tg_device_sources.S)
endfunction()
