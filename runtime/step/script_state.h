/* script_state.h: what script.c (the state) and script_calls.c (its functions) share. */
#ifndef GS_SCRIPT_STATE_H
#define GS_SCRIPT_STATE_H

#include "step/script.h"

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#define GS_SCRIPT_TENSOR "gradsmith.tensor"

struct gs_script {
  lua_State *L;
  const char *path; /* of config.json, for messages */
  char *path_copy;
  size_t live;       /* bytes that Lua holds */
  int config, model; /* registry: the config as a table; the model file's table */
  bool failed;       /* *error says why the script was stopped */
  gs_error error;
  /* while a forward is recorded */
  gs_record *r;
  const gs_host *host;
  const gs_batch_vars *batch;
  unsigned serial; /* counts recordings, so that a tensor kept from an older one is seen */
};

/* A tensor in Lua. */
typedef struct gs_script_tensor {
  int var;
  unsigned serial;
} gs_script_tensor;

gs_script *gs_script_of(lua_State *L);
/* The functions of gradsmith.step as a table on the stack. */
void gs_script_push_module(lua_State *L);
void gs_script_push_tensor(lua_State *L, int var);
int gs_script_check_tensor(lua_State *L, int i); /* the variable */
/* The tables m and b that forward takes. */
void gs_script_push_model(lua_State *L);
void gs_script_push_batch(lua_State *L);

#endif
