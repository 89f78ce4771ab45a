# Turns LICENSE and every file of lua/ and templates/ into one C table (runtime/base/asset.h).
file(GLOB_RECURSE GS_ASSET_FILES CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}
     ${CMAKE_SOURCE_DIR}/lua/*.lua ${CMAKE_SOURCE_DIR}/templates/*.cu
     ${CMAKE_SOURCE_DIR}/templates/*.cuh ${CMAKE_SOURCE_DIR}/templates/*.h)
list(APPEND GS_ASSET_FILES LICENSE)
list(SORT GS_ASSET_FILES)
set(GS_ASSET_C ${CMAKE_BINARY_DIR}/assets.c)
list(TRANSFORM GS_ASSET_FILES PREPEND ${CMAKE_SOURCE_DIR}/ OUTPUT_VARIABLE GS_ASSET_DEPS)
add_custom_command(
  OUTPUT ${GS_ASSET_C}
  COMMAND ${CMAKE_COMMAND} -DOUT=${GS_ASSET_C} -DROOT=${CMAKE_SOURCE_DIR}
          "-DFILES=${GS_ASSET_FILES}" -P ${CMAKE_SOURCE_DIR}/cmake/embed_files.cmake
  DEPENDS ${GS_ASSET_DEPS} ${CMAKE_SOURCE_DIR}/cmake/embed_files.cmake
  VERBATIM)
add_library(gs_assets STATIC ${GS_ASSET_C})
target_include_directories(gs_assets PRIVATE ${CMAKE_SOURCE_DIR}/runtime)
