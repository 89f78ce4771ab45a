/* sandbox.c: the Lua state in which authors' files run.
 *
 * Promises: no file, process, clock or random number is within reach; text chunks only; memory and
 * instructions are bounded; every mistake ends as a line "FILE:LINE: error: ..." and never as a
 * crash. Library code (lua/gradsmith) sees all of Lua's base, authors' files a table of their own.
 */
#include "lua/internal.h"

#include "base/asset.h"
#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

gs_author *author_of(lua_State *L) {
  return *(gs_author **)lua_getextraspace(L);
}

/* ---- places and reports ---- */

/* The innermost frame of an author's file: chunks of authors are named "@path", ours "=gradsmith/".
 */
int author_line(lua_State *L, const char **file) {
  lua_Debug ar;
  for (int level = 0; lua_getstack(L, level, &ar); level++) {
    lua_getinfo(L, "Sl", &ar);
    if (ar.source[0] != '@' || ar.currentline < 0) continue;
    *file = ar.source + 1;
    return ar.currentline;
  }
  return 0;
}

bool author_place(lua_State *L, char *out, size_t cap) {
  const gs_author *a = author_of(L);
  const char *file = NULL;
  int line = author_line(L, &file);
  if (line)
    snprintf(out, cap, "%s:%d", file, line);
  else if (a->hint)
    snprintf(out, cap, "%s", a->hint);
  else
    snprintf(out, cap, "%s:1", a->file ? a->file : "?");
  return line > 0;
}

/* ---- limits ---- */

static void *allocate(void *ud, void *p, size_t old, size_t size) {
  gs_author *a = ud;
  if (!p) old = 0;
  if (size == 0) {
    free(p);
    a->live -= old;
    return NULL;
  }
  bool grows = size > old;
  if (grows) a->traffic += size - old;
  if (grows && (a->live - old + size > MEMORY_LIMIT || a->traffic > TRAFFIC_LIMIT)) {
    char place[sizeof a->place]; /* while Lua cleans up, no author's line is on the stack */
    if (a->L && author_place(a->L, place, sizeof place)) memcpy(a->place, place, sizeof place);
    return NULL;
  }
  void *q = realloc(p, size);
  if (q) a->live += size - old;
  return q;
}

static void count_hook(lua_State *L, lua_Debug *ar) {
  (void)ar;
  gs_author *a = author_of(L);
  a->fuel -= HOOK_EVERY;
  if (a->fuel < 0)
    luaL_error(L, "stopped after %d million instructions: is there an endless loop?",
               (int)(INSTRUCTION_LIMIT / 1000000));
}

/* ---- a protected run ---- */

/* Drops Lua's own "chunk:line: ", which shortens long names, since the place is put in front. */
static const char *without_position(lua_State *L, const char *message) {
  lua_Debug ar;
  for (int level = 1; level < 4 && lua_getstack(L, level, &ar); level++) {
    char prefix[LUA_IDSIZE + 32];
    lua_getinfo(L, "Sl", &ar);
    int n = snprintf(prefix, sizeof prefix, "%s:%d: ", ar.short_src, ar.currentline);
    if (strncmp(message, prefix, (size_t)n) == 0) return message + n;
  }
  return message;
}

/* Records an error where it was raised. What goes on as the error then is a mark, which no file can
 * make, so that a further handler lets it pass. */
static int on_error(lua_State *L) {
  gs_author *a = author_of(L);
  const char *message = lua_tostring(L, 1);
  if (lua_touserdata(L, 1) != a) {
    if (!message) message = "the file raised an error that is not a text";
    author_report(L, NULL, "%s", without_position(L, message));
  }
  lua_pushlightuserdata(L, a);
  return 1;
}

static void record_end_of_memory(gs_author *a) {
  report_add(a, a->place, "the file needs more than the 256 MB of memory that it may have", NULL);
}

gs_status author_run(gs_author *a, lua_CFunction f, void *arg, gs_error *err) {
  lua_State *L = a->L;
  gs_text_free(&a->errors);
  memset(&a->errors, 0, sizeof a->errors);
  a->nerrors = 0;
  a->fuel = INSTRUCTION_LIMIT;
  a->traffic = 0;
  a->hint = NULL;
  snprintf(a->place, sizeof a->place, "%s:1", a->file ? a->file : "?");
  lua_settop(L, 0);
  lua_pushcfunction(L, on_error); /* light functions: nothing is allocated here */
  lua_pushcfunction(L, f);
  lua_pushlightuserdata(L, arg);
  int rc = lua_pcall(L, 1, 0, 1);
  if (rc == LUA_ERRMEM)
    record_end_of_memory(a);
  else if (rc != LUA_OK && a->nerrors == 0)
    report_add(a, a->place, "an error inside the handling of an error", NULL);
  lua_settop(L, 0);
  return a->nerrors ? report_fail(a, err) : GS_OK;
}

/* try(f, ...): calls f; an error in it is recorded, and false returned instead of true and what f
 * gives. What has run out of memory or instructions goes on to the end. */
static int core_try(lua_State *L) {
  gs_author *a = author_of(L);
  lua_pushcfunction(L, on_error);
  lua_insert(L, 1);
  int rc = lua_pcall(L, lua_gettop(L) - 2, LUA_MULTRET, 1);
  if (rc == LUA_ERRMEM) {
    record_end_of_memory(a);
    lua_pushlightuserdata(L, a);
  }
  if (rc == LUA_ERRMEM || (rc != LUA_OK && a->fuel < 0)) return lua_error(L);
  if (rc != LUA_OK) return lua_pushboolean(L, 0), 1;
  lua_pushboolean(L, 1);
  lua_replace(L, 1);
  return lua_gettop(L);
}

/* ---- loading ---- */

/* Leaves the chunk as a function; owned (or NULL) is freed whatever happens. */
static void load_chunk(lua_State *L, const char *data, size_t len, char *owned, const char *chunk) {
  report_keep_source(author_of(L), chunk + 1, data, len);
  bool binary = len && data[0] == LUA_SIGNATURE[0];
  int rc = luaL_loadbufferx(L, data, len, chunk, "t"); /* does not raise */
  free(owned);
  if (rc == LUA_OK) return;
  if (lua_touserdata(L, -1) == author_of(L))
    lua_error(L);                            /* nested too deep: on_error has said it */
  const char *message = lua_tostring(L, -1); /* "path:3: unexpected symbol": keep line and text */
  int line = 1;
  for (const char *c = message; c && (c = strchr(c, ':')); c++) {
    char *end;
    long n = strtol(c + 1, &end, 10);
    if (end == c + 1 || end[0] != ':' || end[1] != ' ') continue;
    line = (int)n;
    message = end + 2;
    break;
  }
  if (binary) message = "precompiled Lua; a layer is a text file";
  author_report(L, lua_pushfstring(L, "%s:%d", chunk + 1, line), "%s", message);
  luaL_error(L, "%s", message); /* on_error says it at the same place: once */
}

/* part(name): what a file of lua/gradsmith, called with the core table, returns; run once. */
static int run_part(lua_State *L) {
  const char *part = luaL_checkstring(L, 1);
  lua_rawgeti(L, LUA_REGISTRYINDEX, author_of(L)->core);
  lua_getfield(L, -1, "parts");
  if (lua_getfield(L, -1, part) != LUA_TNIL) return 1;
  lua_pop(L, 1);
  const gs_asset *asset = gs_asset_find(lua_pushfstring(L, "lua/gradsmith/%s.lua", part));
  if (!asset) return luaL_error(L, "the program lacks lua/gradsmith/%s.lua", part);
  const char *chunk = lua_pushfstring(L, "=gradsmith/%s.lua", part);
  if (luaL_loadbufferx(L, asset->data, asset->len, chunk, "t")) return lua_error(L);
  lua_pushvalue(L, 2);
  lua_call(L, 1, 1);
  lua_pushvalue(L, -1);
  lua_setfield(L, 3, part);
  return 1;
}

static bool is_path(const char *name) {
  size_t n = strlen(name);
  return strchr(name, '/') || (n > 4 && strcmp(name + n - 4, ".lua") == 0);
}

/* The environment of an author's file: library.environment(), made anew for each. */
static void set_environment(lua_State *L) {
  lua_rawgeti(L, LUA_REGISTRYINDEX, author_of(L)->library);
  lua_getfield(L, -1, "environment");
  lua_call(L, 0, 1);
  lua_remove(L, -2);
  if (!lua_setupvalue(L, -2, 1)) lua_pop(L, 1);
}

/* outer: the file that requires this one. Without one the mistake's place is this path already. */
static void load_path(lua_State *L, const char *path, const char *outer) {
  gs_error e;
  char *data;
  size_t len;
  const char *chunk = lua_pushfstring(L, "@%s", path);
  if (gs_file_read(path, &data, &len, &e)) {
    size_t n = strlen(path);
    bool top = !outer || strcmp(outer, path) == 0;
    bool said = top && strncmp(e.message, path, n) == 0 && strncmp(e.message + n, ": ", 2) == 0;
    luaL_error(L, "%s", said ? e.message + n + 2 : e.message);
  }
  load_chunk(L, data, len, data, chunk);
}

void author_run_file(lua_State *L, const char *name, bool shipped) {
  gs_author *a = author_of(L);
  const char *outer = a->file;
  luaL_checkstack(L, 20, "files that require each other");
  int top = lua_gettop(L);
  if (!shipped && is_path(name)) {
    a->file = gs_arena_strdup(a->arena, name);
    load_path(L, name, outer);
  } else {
    lua_pushfstring(L, "lua/layers/%s.lua", name);
    const gs_asset *asset = gs_asset_find(lua_tostring(L, -1));
    if (!asset) {
      luaL_error(L, "there is no layer '%s'", name);
      return; /* not reached */
    }
    a->file = asset->path;
    load_chunk(L, asset->data, asset->len, NULL, lua_pushfstring(L, "@%s", asset->path));
  }
  set_environment(L);
  lua_call(L, 0, 1);
  lua_replace(L, top + 1);
  lua_settop(L, top + 1);
  a->file = outer;
}

/* require "gradsmith" | "layers.NAME" | "PATH.lua", the last relative to the requiring file. */
static int do_require(lua_State *L) {
  gs_author *a = author_of(L);
  const char *name = luaL_checkstring(L, 1);
  if (strcmp(name, "gradsmith") == 0) {
    lua_rawgeti(L, LUA_REGISTRYINDEX, a->library);
    lua_getfield(L, -1, "copy");
    lua_call(L, 0, 1);
    return 1;
  }
  if (strncmp(name, "layers.", 7) == 0 && !is_path(name + 7)) {
    author_run_file(L, luaL_gsub(L, name + 7, ".", "/"), true);
  } else if (is_path(name)) {
    const char *slash = a->file && name[0] != '/' ? strrchr(a->file, '/') : NULL;
    if (slash) {
      lua_pushlstring(L, a->file, (size_t)(slash + 1 - a->file));
      lua_pushvalue(L, 1);
      lua_concat(L, 2);
      name = lua_tostring(L, -1);
    }
    author_run_file(L, name, false);
  } else {
    return luaL_error(L, "require '%s': wanted 'gradsmith', 'layers.NAME' or a path 'NAME.lua'",
                      name);
  }
  return 1;
}

/* ---- the state ---- */

/* keep(f): calls f. A C frame between, so that `return f(...)` keeps the author's line. */
static int call_kept(lua_State *L) {
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  return lua_gettop(L);
}

static int core_keep(lua_State *L) {
  lua_settop(L, 1);
  lua_pushcclosure(L, call_kept, 1);
  return 1;
}

static int core_here(lua_State *L) {
  char place[600];
  author_place(L, place, sizeof place);
  lua_pushstring(L, place);
  return 1;
}

/* defined(f): the place of a function's first line; nil for one of ours. */
static int core_defined(lua_State *L) {
  lua_Debug ar;
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_settop(L, 1);
  lua_getinfo(L, ">S", &ar);
  if (ar.source[0] != '@') return lua_pushnil(L), 1;
  lua_pushfstring(L, "%s:%d", ar.source + 1, ar.linedefined);
  return 1;
}

/* report(place or nil, message) */
static int core_report(lua_State *L) {
  author_report(L, lua_tostring(L, 1), "%s", luaL_checkstring(L, 2));
  return 0;
}

static int core_file(lua_State *L) {
  lua_pushstring(L, author_of(L)->file);
  return 1;
}

/* dims_unknown(yes): whether names of dims that are not known are mistakes told already. */
static int core_dims_unknown(lua_State *L) {
  author_of(L)->dims_unknown = lua_toboolean(L, 1);
  return 0;
}

/* failed(): has a mistake been recorded in this run, and how many? */
static int core_failed(lua_State *L) {
  lua_pushboolean(L, author_of(L)->nerrors > 0);
  lua_pushinteger(L, author_of(L)->nerrors);
  return 2;
}

static int open_state(lua_State *L) {
  gs_author *a = author_of(L);
  luaL_requiref(L, "_G", luaopen_base, 1);
  luaL_requiref(L, LUA_TABLIBNAME, luaopen_table, 1);
  luaL_requiref(L, LUA_STRLIBNAME, luaopen_string, 1);
  luaL_requiref(L, LUA_MATHLIBNAME, luaopen_math, 1);
  lua_settop(L, 1);
  static const luaL_Reg core[] = {{"keep", core_keep},
                                  {"here", core_here},
                                  {"defined", core_defined},
                                  {"report", core_report},
                                  {"part", run_part},
                                  {"require", do_require},
                                  {"file", core_file},
                                  {"failed", core_failed},
                                  {"try", core_try},
                                  {"dims_unknown", core_dims_unknown},
                                  {NULL, NULL}};
  luaL_newlib(L, core);
  value_open(L);
  report_open(L);
  build_functions(L);
  lua_newtable(L);
  core_functions(L);
  lua_setfield(L, -2, "functions");
  push_nothing(L);
  lua_setfield(L, -2, "nothing");
  lua_newtable(L);
  lua_setfield(L, -2, "parts");
  a->core = luaL_ref(L, LUA_REGISTRYINDEX);
  lua_pushcfunction(L, run_part);
  lua_pushliteral(L, "init");
  lua_call(L, 1, 1);
  a->library = luaL_ref(L, LUA_REGISTRYINDEX);
  return 0;
}

gs_status gs_author_new(gs_author **out, gs_error *err) {
  *out = NULL;
  gs_author *a = calloc(1, sizeof *a);
  if (!a) return gs_fail(err, GS_ERR_MEMORY, "no memory for a Lua state");
  a->arena = gs_arena_new();
  lua_State *L = lua_newstate(allocate, a);
  if (!L) {
    gs_author_free(a);
    return gs_fail(err, GS_ERR_MEMORY, "no memory for a Lua state");
  }
  a->L = L;
  a->alias = LUA_NOREF;
  *(gs_author **)lua_getextraspace(L) = a;
  lua_sethook(L, count_hook, LUA_MASKCOUNT, HOOK_EVERY);
  gs_status st = author_run(a, open_state, NULL, err);
  if (st)
    gs_author_free(a);
  else
    *out = a;
  return st;
}

void gs_author_free(gs_author *a) {
  if (!a) return;
  if (a->L) lua_close(a->L);
  gs_text_free(&a->errors);
  gs_arena_free(a->arena);
  free(a);
}
