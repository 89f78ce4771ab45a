/* chat.c: chat templates. Each file of lua/chat names the Jinja texts it stands for by key and
 * renders conversations; it runs in a Lua state with string and table functions, strip, and nothing
 * else. */
#include "base/asset.h"
#include "base/text.h"
#include "data/parts.h"

#include <lauxlib.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct gs_chat {
  lua_State *lua; /* on its stack: the file's table, the entry of `known` */
  char *name, *bos, *eos;
};

void gs_chat_free(gs_chat *c) {
  if (c == NULL) return;
  if (c->lua != NULL) lua_close(c->lua);
  free(c->name);
  free(c->bos);
  free(c->eos);
  free(c);
}

const char *gs_chat_name(const gs_chat *c) {
  return c->name;
}

/* White space as Python's str.strip takes it. */
static bool python_white(uint32_t c) {
  return gs_utf8_white(c) || (c >= 0x1C && c <= 0x1F);
}

static int strip(lua_State *l) {
  size_t n, from = 0;
  const char *s = luaL_checklstring(l, 1, &n);
  uint32_t c;
  int k;
  while (from < n && (k = gs_utf8_next(s + from, n - from, &c)) > 0 && python_white(c))
    from += (size_t)k;
  while (n > from) {
    size_t i = n - 1;
    while (i > from && ((unsigned char)s[i] & 0xC0) == 0x80) i--;
    if (gs_utf8_next(s + i, n - i, &c) == 0 || !python_white(c)) break;
    n = i;
  }
  lua_pushlstring(l, s + from, n - from);
  return 1;
}

/* Runs inside a protected call: string, table and the harmless part of the base library. */
static int open_sandbox(lua_State *l) {
  static const char *removed[] = {"dofile",  "loadfile", "load", "print",        "collectgarbage",
                                  "require", "rawset",   "warn", "getmetatable", "setmetatable"};
  luaL_requiref(l, "_G", luaopen_base, 1);
  luaL_requiref(l, LUA_STRLIBNAME, luaopen_string, 1);
  luaL_requiref(l, LUA_TABLIBNAME, luaopen_table, 1);
  for (size_t i = 0; i < sizeof removed / sizeof *removed; i++) {
    lua_pushnil(l);
    lua_setglobal(l, removed[i]);
  }
  lua_pushcfunction(l, strip);
  lua_setglobal(l, "strip");
  return 0;
}

static gs_status lua_fail(lua_State *l, const char *what, gs_error *err) {
  const char *s = lua_tostring(l, -1);
  return gs_fail(err, GS_ERR_INPUT, "%s%s", what, s != NULL ? s : "an error without a message");
}

/* Leaves the file's table on the stack. */
static gs_status run_file(lua_State *l, const gs_asset *a, gs_error *err) {
  char name[256];
  snprintf(name, sizeof name, "@%s", a->path);
  if (luaL_loadbufferx(l, a->data, a->len, name, "t") != LUA_OK || lua_pcall(l, 0, 1, 0) != LUA_OK)
    return lua_fail(l, "chat template: ", err);
  if (lua_istable(l, -1) && lua_getfield(l, -1, "known") == LUA_TTABLE) {
    lua_pop(l, 1);
    return GS_OK;
  }
  return gs_fail(err, GS_ERR_INPUT, "%s: a chat file returns a table with `known`", a->path);
}

/* Adds the models of the file on the stack's top to *names. */
static void list_models(lua_State *l, gs_text *names) {
  lua_getfield(l, -1, "known");
  for (lua_pushnil(l); lua_next(l, -2) != 0; lua_pop(l, 1)) {
    if (lua_istable(l, -1) && lua_getfield(l, -1, "model") == LUA_TSTRING)
      gs_text_printf(names, "%s%s", names->len > 0 ? "; " : "", lua_tostring(l, -1));
    lua_settop(l, -2);
  }
  lua_pop(l, 1);
}

/* Leaves the file's table and the entry for key on the stack; *found tells whether there is one. */
static gs_status find_key(lua_State *l, const char *key, gs_text *names, bool *found,
                          gs_error *err) {
  static const char folder[] = "lua/chat/";
  const gs_asset *a;
  *found = false;
  for (size_t i = 0; (a = gs_asset_at(i)) != NULL; i++) {
    if (strncmp(a->path, folder, sizeof folder - 1) != 0) continue;
    lua_settop(l, 0);
    gs_status st = run_file(l, a, err);
    if (st != GS_OK) return st;
    lua_getfield(l, 1, "known");
    *found = lua_getfield(l, 2, key) == LUA_TTABLE;
    lua_remove(l, 2);
    if (*found) return GS_OK;
    lua_settop(l, 1);
    list_models(l, names);
  }
  return GS_OK;
}

gs_status gs_chat_open_key(const gs_tokenizer *t, const char *key, const char *head, gs_chat **out,
                           gs_error *err) {
  gs_text names = {0};
  bool found = false;
  size_t cap = 0;
  gs_chat *c = gs_tk_grow(NULL, &cap, 1, sizeof *c);
  memset(c, 0, sizeof *c);
  *out = NULL;
  gs_status st = GS_OK;
  c->lua = luaL_newstate();
  if (c->lua == NULL) {
    st = gs_fail(err, GS_ERR_MEMORY, "out of memory for a Lua state");
    goto done;
  }
  lua_pushcfunction(c->lua, open_sandbox);
  if (lua_pcall(c->lua, 0, 0, 0) != LUA_OK) {
    st = lua_fail(c->lua, "chat template: ", err);
    goto done;
  }
  st = find_key(c->lua, key, &names, &found, err);
  if (st != GS_OK) goto done;
  if (!found) {
    st = gs_fail(
        err, GS_ERR_INPUT,
        "the model's chat template is not known (key %s, it begins \"%.60s\"); known are: "
        "%.2000s. Use `text` or `prompt` and `completion` in the data instead of `messages`",
        key, head, names.len > 0 ? names.s : "none");
    goto done;
  }
  lua_getfield(c->lua, 2, "model");
  const char *model = lua_tostring(c->lua, -1);
  c->name = gs_tk_strndup(model != NULL ? model : key, strlen(model != NULL ? model : key));
  lua_settop(c->lua, 2);
  if (t != NULL && t->bos_text != NULL) c->bos = gs_tk_strndup(t->bos_text, strlen(t->bos_text));
  if (t != NULL && t->eos_text != NULL) c->eos = gs_tk_strndup(t->eos_text, strlen(t->eos_text));
  *out = c;
  c = NULL;
done:
  gs_chat_free(c);
  gs_text_free(&names);
  return st;
}

gs_status gs_chat_open(const gs_tokenizer *t, gs_chat **out, gs_error *err) {
  const char *jinja = gs_tokenizer_chat_template(t);
  char key[64], head[64];
  *out = NULL;
  if (jinja == NULL)
    return gs_fail(err, GS_ERR_INPUT,
                   "the model has no chat template, which `messages` and prompts "
                   "need; use `text` or `prompt` and `completion` in the data");
  gs_chat_key(jinja, key);
  size_t n = strcspn(jinja, "\r\n");
  if (n > 60) n = 60;
  while (n > 0 && ((unsigned char)jinja[n] & 0xC0) == 0x80) n--; /* not inside a character */
  memcpy(head, jinja, n);
  head[n] = 0;
  return gs_chat_open_key(t, key, head, out, err);
}

void gs_segments_free(gs_segments *s) {
  for (size_t i = 0; i < s->n; i++) free(s->v[i].text);
  free(s->v);
  memset(s, 0, sizeof *s);
}

typedef struct call {
  const gs_chat *chat;
  const gs_message *m;
  size_t n;
  bool generate;
} call;

static void set_text(lua_State *l, const char *key, const char *s, size_t n) {
  if (s == NULL) return;
  lua_pushlstring(l, s, n);
  lua_setfield(l, -2, key);
}

/* Runs inside a protected call: calls render with its one argument, returns what it returned. */
static int call_render(lua_State *l) {
  const call *c = lua_touserdata(l, 1);
  lua_getfield(l, 2, "render");
  lua_createtable(l, 0, 5);
  lua_createtable(l, (int)c->n, 0);
  for (size_t i = 0; i < c->n; i++) {
    lua_createtable(l, 0, 2);
    set_text(l, "role", c->m[i].role, strlen(c->m[i].role));
    set_text(l, "content", c->m[i].content, c->m[i].content_n);
    lua_rawseti(l, -2, (lua_Integer)i + 1);
  }
  lua_setfield(l, -2, "messages");
  lua_pushboolean(l, c->generate);
  lua_setfield(l, -2, "generate");
  set_text(l, "bos", c->chat->bos, c->chat->bos != NULL ? strlen(c->chat->bos) : 0);
  set_text(l, "eos", c->chat->eos, c->chat->eos != NULL ? strlen(c->chat->eos) : 0);
  lua_pushvalue(l, 3);
  lua_setfield(l, -2, "option");
  lua_call(l, 1, 1);
  luaL_checktype(l, -1, LUA_TTABLE);
  return 1;
}

static gs_status take_pieces(lua_State *l, gs_segments *out, gs_error *err) {
  size_t count = lua_rawlen(l, -1);
  for (size_t i = 1; i <= count; i++) {
    size_t n;
    bool answer = lua_rawgeti(l, -1, (lua_Integer)i) == LUA_TTABLE;
    if (answer) {
      lua_pushstring(l, "answer");
      lua_rawget(l, -2);
    }
    if (lua_type(l, -1) != LUA_TSTRING)
      return gs_fail(err, GS_ERR_INPUT, "chat template: piece %zu is neither text nor an answer",
                     i);
    const char *s = lua_tolstring(l, -1, &n);
    out->v = gs_tk_grow(out->v, &out->cap, out->n + 1, sizeof *out->v);
    out->v[out->n++] = (gs_segment){gs_tk_strndup(s, n), n, answer};
    lua_pop(l, answer ? 2 : 1);
  }
  return GS_OK;
}

gs_status gs_chat_render(const gs_chat *c, const gs_message *m, size_t n, bool generate,
                         gs_segments *out, gs_error *err) {
  call arg = {c, m, n, generate};
  lua_State *l = c->lua;
  if (n == 0) return gs_fail(err, GS_ERR_INPUT, "a conversation without messages");
  lua_pushcfunction(l, call_render);
  lua_pushlightuserdata(l, &arg);
  lua_pushvalue(l, 1);
  lua_pushvalue(l, 2);
  gs_status st = lua_pcall(l, 3, 1, 0) == LUA_OK ? take_pieces(l, out, err) : lua_fail(l, "", err);
  lua_settop(l, 2);
  return st;
}

gs_status gs_chat_prompt(const gs_chat *c, const gs_tokenizer *t, const char *user, gs_ids *out,
                         gs_error *err) {
  gs_message m = {"user", user, strlen(user)};
  gs_segments s = {0};
  gs_text all = {0};
  gs_status st = gs_chat_render(c, &m, 1, true, &s, err);
  for (size_t i = 0; i < s.n; i++) gs_text_add_n(&all, s.v[i].text, s.v[i].n);
  if (st == GS_OK) st = gs_tokenizer_encode(t, all.len > 0 ? all.s : "", all.len, 0, out, err);
  gs_text_free(&all);
  gs_segments_free(&s);
  return st;
}
