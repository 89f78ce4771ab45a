# libgradsmith, shared and static: packs opened and launched from C (runtime/gradsmith.h). No Lua, no
# NVRTC; the NVIDIA driver is opened at run time. Exports what the header declares and nothing else.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(root ${CMAKE_SOURCE_DIR})
add_library(libgradsmith_objects OBJECT
  ${root}/runtime/base/arena.c ${root}/runtime/base/error.c ${root}/runtime/base/file.c
  ${root}/runtime/base/hash.c ${root}/runtime/base/text.c
  ${root}/runtime/pack/file.c ${root}/runtime/pack/index.c
  ${root}/runtime/pack/lib/bind.c ${root}/runtime/pack/lib/pack.c
  ${root}/runtime/device/cuda/driver.c ${root}/runtime/device/cuda/boxes.c
  ${root}/runtime/device/tensor_map.c ${root}/runtime/jit/library.c ${root}/gen/emit/caps.c)
set_target_properties(libgradsmith_objects PROPERTIES POSITION_INDEPENDENT_CODE ON
                      C_VISIBILITY_PRESET hidden)
target_include_directories(libgradsmith_objects SYSTEM PRIVATE ${gs_jansson_INCLUDE}
                           ${gs_md_INCLUDE})

add_library(libgradsmith SHARED $<TARGET_OBJECTS:libgradsmith_objects>)
set_target_properties(libgradsmith PROPERTIES OUTPUT_NAME gradsmith LINKER_LANGUAGE C
                      VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
                      EXPORT_NAME gradsmith PUBLIC_HEADER ${root}/runtime/gradsmith.h)
# The archives of GS_STATIC_DEPS are not made for a shared library.
find_library(GS_SHARED_JANSSON jansson REQUIRED)
find_library(GS_SHARED_MD md REQUIRED)
target_link_libraries(libgradsmith PRIVATE ${GS_SHARED_JANSSON} ${GS_SHARED_MD} Threads::Threads
                      ${CMAKE_DL_LIBS})
target_include_directories(libgradsmith INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

# In one object whose hidden names are local, so that a program that links it statically cannot meet
# them either.
set(archive ${CMAKE_BINARY_DIR}/libgradsmith.a)
add_custom_command(
  OUTPUT ${archive}
  COMMAND ${CMAKE_LINKER} -r -o libgradsmith_all.o $<TARGET_OBJECTS:libgradsmith_objects>
  COMMAND ${CMAKE_OBJCOPY} --localize-hidden libgradsmith_all.o
  COMMAND ${CMAKE_COMMAND} -E rm -f ${archive}
  COMMAND ${CMAKE_AR} rcs ${archive} libgradsmith_all.o
  DEPENDS libgradsmith_objects $<TARGET_OBJECTS:libgradsmith_objects>
  WORKING_DIRECTORY ${CMAKE_BINARY_DIR}
  COMMAND_EXPAND_LISTS VERBATIM)
add_custom_target(libgradsmith_static ALL DEPENDS ${archive})

# ---- installed: programs, libraries, header, and how cmake and pkg-config find them ----
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/gradsmith)
configure_package_config_file(${root}/cmake/gradsmith-config.cmake.in
                              ${CMAKE_BINARY_DIR}/gradsmith-config.cmake
                              INSTALL_DESTINATION ${package}
                              PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/gradsmith-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
configure_file(${root}/cmake/gradsmith.pc.in ${CMAKE_BINARY_DIR}/gradsmith.pc @ONLY)
install(TARGETS gradsmith)
install(TARGETS libgradsmith EXPORT gradsmith)
install(EXPORT gradsmith NAMESPACE gradsmith:: FILE gradsmith-targets.cmake DESTINATION ${package})
install(FILES ${archive} DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES ${CMAKE_BINARY_DIR}/gradsmith-config.cmake
              ${CMAKE_BINARY_DIR}/gradsmith-config-version.cmake DESTINATION ${package})
install(FILES ${CMAKE_BINARY_DIR}/gradsmith.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES ${root}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
