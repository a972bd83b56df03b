# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` lays down, all below one prefix and without a path compiled in, so that a tree may
# be moved: the command finds its broker at ../libexec/tidegate, and tidegate.pc finds itself.
#   bin/tidegate  libexec/tidegate/tidegate-broker (and tidegate-gpu, where the command is static)  lib/libtidegate.a  lib/pkgconfig/tidegate.pc
#   include/tidegate/*.h  share/man/man?/  share/doc/tidegate/
# The prototype's name, bin/nx_swarm_queue, is a component of its own, left out unless asked for.

# libtidegate.a: the rooms that programs link, in one archive.
set(library_rooms base policy ring ir engine)
set(TG_PC_REQUIRES "")
if(EXISTS ${CMAKE_SOURCE_DIR}/include/tidegate/launch.h)
  list(APPEND library_rooms proto machine client)
  set(TG_PC_REQUIRES "jansson >= 2.10")
endif()
set(library_objects "")
foreach(room ${library_rooms})
  get_target_property(type tg_${room} TYPE)
  if(type STREQUAL "STATIC_LIBRARY")
    list(APPEND library_objects $<TARGET_OBJECTS:tg_${room}>)
  endif()
endforeach()
add_library(tidegate_archive STATIC ${library_objects})
set_target_properties(tidegate_archive PROPERTIES OUTPUT_NAME tidegate LINKER_LANGUAGE C)
install(TARGETS tidegate_archive ARCHIVE DESTINATION lib)
configure_file(cmake/tidegate.pc.in tidegate.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/tidegate.pc DESTINATION lib/pkgconfig)
if(EXISTS ${CMAKE_SOURCE_DIR}/include/tidegate)
  install(DIRECTORY include/tidegate DESTINATION include FILES_MATCHING PATTERN "*.h" PATTERN "*.cuh")
endif()
# The engine's kernel as text, which <tidegate/device.cuh> compiles together with opcodes of a program.
foreach(room base ring engine)
  install(DIRECTORY src/${room} DESTINATION include/tidegate/device FILES_MATCHING PATTERN "*.h" PATTERN "*.cuh" PATTERN "*.cu")
endforeach()

if(TARGET tidegate)
  install(TARGETS tidegate RUNTIME DESTINATION bin)
  install(FILES ${CMAKE_BINARY_DIR}/nx_swarm_queue DESTINATION bin COMPONENT nx_swarm_queue EXCLUDE_FROM_ALL)
endif()
if(TARGET tidegate-gpu)
  install(TARGETS tidegate-gpu RUNTIME DESTINATION libexec/tidegate)
endif()
if(TARGET tidegate-broker)
  install(TARGETS tidegate-broker RUNTIME DESTINATION libexec/tidegate)
endif()

foreach(section 1 3 5 7 8)
  file(GLOB pages CONFIGURE_DEPENDS man/*.${section})
  if(pages)
    install(FILES ${pages} DESTINATION share/man/man${section})
  endif()
endforeach()
install(FILES README.md LICENSE DESTINATION share/doc/tidegate)

# What ./tg install builds: no more than it copies.
add_custom_target(installed)
add_dependencies(installed tidegate_archive)
foreach(target tidegate tidegate-gpu tidegate-broker)
  if(TARGET ${target})
    add_dependencies(installed ${target})
  endif()
endforeach()
