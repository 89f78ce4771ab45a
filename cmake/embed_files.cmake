# cmake -DOUT= -DROOT= -DFILES="a;b" -P embed_files.cmake: writes the asset table.
set(body "#include \"base/asset.h\"\n#include <string.h>\n")
set(table "")
set(n 0)
# NVRTC is given one text: what the preludes share is put in the place of its #include.
set(shared "prelude_integers.h")
string(HEX "#include \"${shared}\"\n" include)
file(READ ${ROOT}/templates/${shared} shared_hex HEX)
# A further prelude is given with those before it: the file that comes before it.
set(prelude_cuda_tiles.cuh prelude_cuda.cuh)
set(prelude_cuda_hopper.cuh prelude_cuda_tiles.cuh)
set(prelude_emu_tiles.h prelude_emu.h)
set(prelude_emu_hopper.h prelude_emu_tiles.h)
foreach(f ${FILES})
  file(READ ${ROOT}/${f} hex HEX)
  get_filename_component(name ${f} NAME)
  while(DEFINED ${name})
    set(name ${${name}})
    file(READ ${ROOT}/templates/${name} before HEX)
    string(PREPEND hex "${before}")
  endwhile()
  string(REPLACE "${include}" "${shared_hex}" hex "${hex}")
  string(LENGTH "${hex}" digits)
  math(EXPR len "${digits} / 2")
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
  string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)"
         "\\1\n" bytes "${bytes}")
  string(APPEND body "static const unsigned char f${n}[] = {\n${bytes}0};\n")
  string(APPEND table "  {\"${f}\", (const char *)f${n}, ${len}},\n")
  math(EXPR n "${n} + 1")
endforeach()
string(APPEND body "static const gs_asset files[] = {\n${table}  {NULL, NULL, 0}};\n"
  "const gs_asset *gs_asset_at(size_t i) { return i < ${n} ? &files[i] : NULL; }\n"
  "const gs_asset *gs_asset_find(const char *path) {\n"
  "  for (size_t i = 0; i < ${n}; i++)\n"
  "    if (strcmp(files[i].path, path) == 0) return &files[i];\n"
  "  return NULL;\n}\n")
file(WRITE ${OUT} "${body}")
