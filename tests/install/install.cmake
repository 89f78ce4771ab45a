# cmake -DBUILD= -DSOURCE= -DCC= -DGENERATOR= -P install.cmake: installs the build under BUILD/installed, then uses it
# as a stranger would: the example built by find_package (shared and static) and by pkg-config, from a
# folder of its own; and holds what the libraries export against the header.
set(prefix ${BUILD}/installed)
set(work ${BUILD}/installed-example)
file(REMOVE_RECURSE ${prefix} ${work})

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE rc OUTPUT_VARIABLE out ERROR_VARIABLE out)
  if(NOT rc EQUAL 0)
    message(FATAL_ERROR "${ARGN}\n${out}")
  endif()
  set(out "${out}" PARENT_SCOPE)
endfunction()

run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix})
file(GLOB shared ${prefix}/lib*/libgradsmith.so ${prefix}/lib*/*/libgradsmith.so)
file(GLOB archive ${prefix}/lib*/libgradsmith.a ${prefix}/lib*/*/libgradsmith.a)

# Every GS_PUBLIC function of the header is exported, and nothing else is.
file(STRINGS ${prefix}/include/gradsmith.h lines REGEX "^GS_PUBLIC")
set(wanted)
foreach(line ${lines})
  string(REGEX REPLACE ".*[ *](gs_[a-z_0-9]+)\\(.*" "\\1" name "${line}")
  list(APPEND wanted ${name})
endforeach()
list(SORT wanted)
foreach(library "-D;${shared}" "-g;${archive}")
  run(nm --defined-only --portability ${library})
  string(REGEX MATCHALL "(^|\n)[A-Za-z_][^ \n]* [TDBRVW]" found "${out}")
  list(TRANSFORM found REPLACE "[\n ]|[TDBRVW]$" "")
  list(SORT found)
  if(NOT found STREQUAL wanted)
    message(FATAL_ERROR "${library} exports\n${found}\nand the header declares\n${wanted}")
  endif()
endforeach()

foreach(kind gradsmith static)
  run(${CMAKE_COMMAND} -G ${GENERATOR} -S ${SOURCE}/examples/rmsnorm -B ${work}/${kind} -DCMAKE_C_COMPILER=${CC}
      -DCMAKE_PREFIX_PATH=${prefix} -DGRADSMITH=gradsmith::${kind})
  run(${CMAKE_COMMAND} --build ${work}/${kind})
endforeach()

find_program(pkg_config pkg-config)
if(pkg_config)
  get_filename_component(libdir ${shared} DIRECTORY)
  set(ENV{PKG_CONFIG_PATH} ${libdir}/pkgconfig)
  run(${pkg_config} --define-variable=prefix=${prefix} --cflags --libs gradsmith)
  separate_arguments(flags UNIX_COMMAND "${out}")
  run(${CC} -o ${work}/by_pkg_config ${SOURCE}/examples/rmsnorm/main.c ${flags} -lm -ldl)
endif()
