/* body.c: the rules of a kernel's body, by walks over its tree that know of each value whether it
 * differs between threads, and whether an outer dim went into it. What is known of variables
 * follows the statements: branches meet in the union of both, a loop's body is walked until its
 * start knows all that its end does. The first walks find how loops are left; the last one speaks.
 */
#include "lint/internal.h"

#include <stdio.h>
#include <string.h>

enum {               /* of a value, and of whether a statement is reached */
       IN_BLOCK = 1, /* differs between threads of a block */
       IN_WARP = 2,  /* and of a warp */
       DIFFERS = IN_BLOCK | IN_WARP,
       OUTER = 4,   /* an outer dim, a stride or the block's number is in it */
       PRODUCT = 8, /* times something: it may pass 32 bits */
};

typedef struct variable {
  gs_cursor at;
  unsigned hash, bits;
  bool shared;
} variable;

typedef struct known { /* the bits of variables at some point */
  unsigned *bits;
  int n;
} known;

typedef struct spot { /* a loop, by its place: what leaving it early depends on */
  gs_cursor at;
  unsigned bits;
  known out; /* where it is left in its midst */
} spot;

typedef struct body {
  look *l;
  variable *vars;
  int nvars, cap_vars;
  spot *loops;
  int nloops, cap_loops;
  int open[64], nopen; /* numbers of loops around; -1 a switch */
  unsigned returned;   /* what an early return so far depends on */
  int perhaps;         /* inside an operand that may not be evaluated */
  bool speaks, grew;
} body;

static unsigned walk(body *b, gs_cursor c, unsigned reach);

/* ---- what is known ---- */

static variable *variable_of(body *b, gs_cursor decl) {
  unsigned h = b->l->cx->hash(decl);
  for (int i = 0; i < b->nvars; i++)
    if (b->vars[i].hash == h && b->l->cx->equal(b->vars[i].at, decl)) return &b->vars[i];
  b->vars = gs_arena_room(b->l->a, b->vars, b->nvars, &b->cap_vars, sizeof *b->vars);
  char note[32] = "";
  bool shared = annotation_of(b->l, decl, note, sizeof note) && strcmp(note, "shared") == 0;
  b->vars[b->nvars] = (variable){.at = decl, .hash = h, .shared = shared};
  return &b->vars[b->nvars++];
}

static void grow(body *b, unsigned *bits, unsigned more) {
  if ((*bits | more) != *bits) b->grew = true;
  *bits |= more;
}

static known take_known(const body *b) {
  known k = {GS_NEW_N(b->l->a, unsigned, b->nvars + 1), b->nvars};
  for (int i = 0; i < k.n; i++) k.bits[i] = b->vars[i].bits;
  return k;
}

static void put_back(body *b, const known *k) {
  for (int i = 0; i < k->n; i++) b->vars[i].bits = k->bits[i];
}

/* Adds what k knows; whether all of it was known. */
static bool join(body *b, const known *k) {
  bool same = true;
  for (int i = 0; i < k->n; i++) {
    same &= (b->vars[i].bits | k->bits[i]) == b->vars[i].bits;
    b->vars[i].bits |= k->bits[i];
  }
  return same;
}

static int loop_number(body *b, gs_cursor c) {
  for (int i = 0; i < b->nloops; i++)
    if (b->l->cx->equal(b->loops[i].at, c)) return i;
  b->loops = gs_arena_room(b->l->a, b->loops, b->nloops, &b->cap_loops, sizeof *b->loops);
  b->loops[b->nloops] = (spot){.at = c};
  return b->nloops++;
}

static bool is_expr(gs_cursor c) {
  return c.kind >= CX_FIRST_EXPR && c.kind <= CX_LAST_EXPR;
}

static int type_kind(const body *b, gs_cursor c) {
  return b->l->cx->canonical(b->l->cx->type(c)).kind;
}

static bool is_int32(int kind) {
  return kind == CX_T_INT || kind == CX_T_UINT;
}

static bool is_int64(int kind) {
  return kind == CX_T_LONG || kind == CX_T_ULONG || kind == CX_T_LONGLONG || kind == CX_T_ULONGLONG;
}

/* Past parentheses and conversions that nobody wrote. */
static gs_cursor bare(const body *b, gs_cursor c) {
  while (c.kind == CX_UNEXPOSED_EXPR || c.kind == CX_PAREN) {
    cursors in = children_of(b->l, c);
    bool one = in.n == 1;
    if (one) c = in.v[0];
    if (!one) break;
  }
  return c;
}

static bool is_tensor(const body *b, gs_cursor c) {
  c = bare(b, c);
  if (c.kind != CX_DECL_REF) return false;
  gs_cursor decl = b->l->cx->referenced(c);
  return decl.kind == CX_PARAM && type_kind(b, decl) == CX_T_POINTER;
}

/* The operator between two operands: the first token behind the first. */
static void operator_of(const body *b, gs_cursor left, gs_cursor right, char *out, size_t cap) {
  const gs_clang_api *cx = b->l->cx;
  gs_cx_range gap = cx->range(cx->range_end(cx->extent(left)), cx->range_start(cx->extent(right)));
  gs_cx_token *tokens = NULL;
  unsigned n = 0;
  *out = 0;
  cx->tokenize(b->l->unit, gap, &tokens, &n);
  for (unsigned i = 0; i < n; i++) {
    take_string(b->l, cx->token(b->l->unit, tokens[i]), out, cap);
    if (strcmp(out, ")") != 0) break;
  }
  if (tokens) cx->drop_tokens(b->l->unit, tokens, n);
}

static void first_token(const body *b, gs_cursor c, char *out, size_t cap) {
  gs_cx_token *tokens = NULL;
  unsigned n = 0;
  *out = 0;
  b->l->cx->tokenize(b->l->unit, b->l->cx->extent(c), &tokens, &n);
  if (n) take_string(b->l, b->l->cx->token(b->l->unit, tokens[0]), out, cap);
  if (tokens) b->l->cx->drop_tokens(b->l->unit, tokens, n);
}

/* ---- values ---- */

static unsigned walk_all(body *b, gs_cursor c, unsigned reach) {
  cursors in = children_of(b->l, c);
  unsigned bits = 0;
  for (int i = 0; i < in.n; i++) bits |= walk(b, in.v[i], reach);
  return bits;
}

/* A value goes into what c names: a variable, which then holds only that, or an element of an
 * array, which may hold what it held. What is shared does not differ between threads that read the
 * same element; memory of tensors is not followed. */
static void assign(body *b, gs_cursor c, unsigned bits, bool whole) {
  c = bare(b, c);
  while (c.kind == CX_SUBSCRIPT) {
    cursors in = children_of(b->l, c);
    gs_cursor base = in.n ? bare(b, in.v[0]) : c;
    if (b->l->cx->equal(base, c)) return;
    c = base;
    whole = false;
  }
  if (c.kind != CX_DECL_REF) return;
  gs_cursor decl = b->l->cx->referenced(c);
  variable *v = decl.kind == CX_VAR ? variable_of(b, decl) : NULL;
  if (!v || v->shared) return;
  if (is_int32(type_kind(b, decl))) bits &= ~(unsigned)PRODUCT;
  v->bits = whole && !b->perhaps ? bits : v->bits | bits;
}

static unsigned walk_ref(body *b, gs_cursor c) {
  gs_cursor decl = b->l->cx->referenced(c);
  if (decl.kind == CX_PARAM) {
    int kind = type_kind(b, decl);
    if (kind == CX_T_POINTER && b->speaks) {
      char name[128];
      spelling_of(b->l, c, name, sizeof name);
      complain(
          b->l, c,
          "tensor %s is used otherwise than by %s[i] or as the argument of a function: a cast, "
          "an address or arithmetic on it escapes the checks of the emulator",
          name, name);
    }
    return is_int64(kind) ? OUTER : 0;
  }
  variable *v = decl.kind == CX_VAR ? variable_of(b, decl) : NULL;
  return v ? v->bits : 0;
}

static unsigned walk_subscript(body *b, gs_cursor c, unsigned reach) {
  cursors in = children_of(b->l, c);
  unsigned bits = 0;
  for (int i = 0; i < in.n; i++)
    if (i > 0 || !is_tensor(b, in.v[i])) bits |= walk(b, in.v[i], reach);
  return bits & DIFFERS;
}

typedef struct meeting {
  const char *name, *what;
  bool whole; /* every thread of the block must reach it; else every lane of the warp */
} meeting;

static const meeting *meeting_of(const char *name) {
  static const meeting all[] = {
      {"gs_meet_sync", "GS_SYNC", true},
      {"gs_meet_syncwarp", "GS_SYNCWARP", false},
      {"gs_meet_block", "a block's collective", true},
      {"gs_meet_cluster", "a cluster's collective", true},
      {"gs_meet_cluster_gather", "a cluster's collective", true},
      {"gs_meet_cluster_sync", "GS_CLUSTER_SYNC", true},
      {"gs_meet_warp", "a warp's collective", false},
      {"gs_meet_group", "a group's collective", false},
      {"gs_meet_exchange", "GS_EXCHANGE", false},
  };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (strcmp(all[i].name, name) == 0) return &all[i];
  return NULL;
}

static void check_meeting(body *b, gs_cursor c, const meeting *m, unsigned reach) {
  unsigned matters = m->whole ? DIFFERS : IN_WARP;
  const char *who = m->whole ? "thread of the block" : "lane of the warp";
  if (!b->speaks) return;
  if (b->l->k->barrier_free)
    complain(b->l, c, "%s in a kernel that says it is barrier-free: take the word out of its head",
             m->what);
  if (reach & matters)
    complain(b->l, c,
             "%s under a condition that depends on the thread: every %s must reach it, so move it "
             "out and predicate what surrounds it",
             m->what, who);
  else if (b->returned & matters)
    complain(b->l, c,
             "%s after an early return that depends on the thread: every %s must reach it, so "
             "predicate instead of returning",
             m->what, who);
}

/* What a collective or a place gives. */
static unsigned result_of(const char *name, unsigned args) {
  if (strcmp(name, "gs_here_tid") == 0 || strcmp(name, "gs_here_lane") == 0) return DIFFERS;
  if (strcmp(name, "gs_here_warp") == 0 || strcmp(name, "gs_meet_warp") == 0) return IN_BLOCK;
  if (strcmp(name, "gs_here_bid") == 0 || strcmp(name, "gs_here_nblocks") == 0) return OUTER;
  if (strcmp(name, "gs_meet_block") == 0 || strcmp(name, "gs_meet_cluster") == 0) return 0;
  return args & DIFFERS;
}

static bool may_take_tensors(const char *name) {
  return strncmp(name, "__builtin", 9) != 0 && strncmp(name, "mem", 3) != 0;
}

static unsigned walk_call(body *b, gs_cursor c, unsigned reach) {
  char name[128];
  cursors in = children_of(b->l, c);
  gs_cursor callee = b->l->cx->referenced(c);
  gs_cx_type type = b->l->cx->type(callee);
  unsigned bits = 0;
  spelling_of(b->l, c, name, sizeof name);
  for (int i = 1; i < in.n; i++)
    if (!is_tensor(b, in.v[i]) || !may_take_tensors(name)) bits |= walk(b, in.v[i], reach);
  if (strcmp(name, "gs_meet_cluster_gather") == 0) bits = 0; /* all get the same */
  for (int i = 1; i < in.n; i++) /* what it writes through a reference */
    if (b->l->cx->arg_type(type, (unsigned)i - 1).kind == CX_T_LREF)
      assign(b, in.v[i], (bits | reach) & DIFFERS, false);
  const meeting *m = meeting_of(name);
  if (m) check_meeting(b, c, m, reach);
  return result_of(name, bits);
}

static void check_product(body *b, gs_cursor c, unsigned bits) {
  if (b->speaks && (bits & OUTER) && is_int32(type_kind(b, c)))
    complain(b->l, c,
             "a product in 32 bits with an outer dim, a stride or the block's number in it: past "
             "2^31 elements it wraps; make it i64");
}

static unsigned walk_binary(body *b, gs_cursor c, unsigned reach) {
  cursors in = children_of(b->l, c);
  char op[8] = "";
  unsigned bits;
  if (in.n != 2) {
    return walk_all(b, c, reach);
  }
  gs_cursor left = in.v[0], right = in.v[1];
  operator_of(b, left, right, op, sizeof op);
  bool lazy = strcmp(op, "&&") == 0 || strcmp(op, "||") == 0;
  unsigned x = walk(b, left, reach);
  b->perhaps += lazy;
  unsigned y = walk(b, right, lazy ? reach | (x & DIFFERS) : reach);
  b->perhaps -= lazy;
  bits = x | y;
  if (c.kind == CX_COMPOUND_ASSIGN || strcmp(op, "=") == 0) {
    if (strcmp(op, "*=") == 0) check_product(b, c, bits);
    if (strcmp(op, "=") == 0) bits = y;
    assign(b, left, bits | (reach & DIFFERS), op[0] == '=');
  } else if (strcmp(op, "*") == 0) {
    check_product(b, c, bits);
    if (bits & OUTER) bits |= PRODUCT;
  } else if (strcmp(op, "-") == 0) {
    bits &= ~(unsigned)PRODUCT; /* a difference: how many are left, not where */
  } else if (strcmp(op, "%") == 0 || lazy || strpbrk(op, "<>=!&") != NULL) {
    bits = strcmp(op, "<<") == 0 || strcmp(op, ">>") == 0 ? bits : bits & DIFFERS;
  }
  return bits;
}

static unsigned walk_unary(body *b, gs_cursor c, unsigned reach) {
  char op[8];
  cursors in = children_of(b->l, c);
  gs_cursor arg = in.n ? bare(b, in.v[0]) : c;
  first_token(b, c, op, sizeof op);
  if (b->speaks && op[0] == '&' && op[1] == 0 && arg.kind == CX_SUBSCRIPT) {
    cursors parts = children_of(b->l, arg);
    if (parts.n && is_tensor(b, parts.v[0]))
      complain(b->l, c,
               "the address of a tensor's element is taken: what is done with it escapes "
               "the checks of the emulator; use [] and the gs_ functions");
  }
  unsigned bits = walk_all(b, c, reach);
  if (reach & DIFFERS) assign(b, arg, reach & DIFFERS, false); /* ++ and -- */
  return bits;
}

static void check_narrowing(body *b, gs_cursor c, unsigned bits, bool written) {
  if (!b->speaks || !is_int32(type_kind(b, c)) || !(bits & OUTER)) return;
  cursors in = children_of(b->l, c);
  gs_cursor from = c;
  for (int i = 0; i < in.n; i++)
    if (is_expr(in.v[i])) from = bare(b, in.v[i]);
  if (!is_int64(type_kind(b, from))) return;
  if (!written)
    complain(b->l, c,
             "an i64 with an outer dim, a stride or the block's number in it becomes an int: such "
             "sizes and offsets are i64");
  else if (bits & PRODUCT)
    complain(
        b->l, c,
        "a product with an outer dim, a stride or the block's number in it is cast to 32 bits: "
        "offsets are i64");
}

static unsigned walk_conditional(body *b, gs_cursor c, unsigned reach) {
  cursors in = children_of(b->l, c);
  unsigned test = in.n ? walk(b, in.v[0], reach) & DIFFERS : 0, bits = test;
  b->perhaps++;
  for (int i = 1; i < in.n; i++) bits |= walk(b, in.v[i], reach | test);
  b->perhaps--;
  return bits;
}

/* ---- statements ---- */

static void walk_var(body *b, gs_cursor c, unsigned reach) {
  unsigned bits = walk_all(b, c, reach);
  variable *v = variable_of(b, c);
  if (!v) return;
  if (v->shared && b->speaks && b->l->k->barrier_free)
    complain(b->l, c,
             "shared memory in a kernel that says it is barrier-free: take the word out of "
             "its head");
  if (is_int32(type_kind(b, c))) bits &= ~(unsigned)PRODUCT;
  v->bits = v->shared ? 0 : bits | (reach & DIFFERS);
}

/* if, switch: the first expression is the condition; each branch starts from what is known there.
 */
static void walk_choice(body *b, gs_cursor c, unsigned reach) {
  cursors in = children_of(b->l, c);
  int at = 0;
  for (bool tested = false; at < in.n && !tested; at++) {
    unsigned bits = walk(b, in.v[at], reach);
    tested = is_expr(in.v[at]);
    if (tested) reach |= bits & DIFFERS;
  }
  bool is_switch = c.kind == CX_SWITCH, both = c.kind == CX_IF && in.n - at == 2;
  known before = take_known(b), sum = {0};
  if (is_switch && b->nopen < 64) b->open[b->nopen++] = -1;
  for (; at < in.n; at++) {
    put_back(b, &before);
    walk(b, in.v[at], reach);
    join(b, &sum);
    sum = take_known(b);
  }
  if (is_switch && b->nopen > 0) b->nopen--;
  if (!both) join(b, &before);
}

/* Once through a loop's condition, body and step. The body is the last child, but of do the first;
 * every other expression may decide how often it runs. */
static void walk_round(body *b, gs_cursor c, const cursors *in, unsigned around, int number) {
  int inner = c.kind == CX_DO ? 0 : in->n - 1;
  unsigned reach = around | b->loops[number].bits;
  for (int i = 0; i < in->n; i++) {
    if (i == inner || !is_expr(in->v[i])) continue;
    reach |= walk(b, in->v[i], around) & DIFFERS;
  }
  bool pushed = b->nopen < 64;
  if (pushed) b->open[b->nopen++] = number;
  if (in->n) walk(b, in->v[inner], reach);
  for (int i = 0; i < in->n; i++) /* its step runs as often as its body */
    if (i != inner && is_expr(in->v[i])) walk(b, in->v[i], reach);
  if (pushed) b->nopen--;
}

static void walk_loop(body *b, gs_cursor c, unsigned reach) {
  cursors in = children_of(b->l, c);
  int number = loop_number(b, c);
  bool speaks = b->speaks, stable = false;
  for (int i = 0; c.kind != CX_DO && i < in.n - 1; i++) /* what a for declares */
    if (!is_expr(in.v[i])) walk(b, in.v[i], reach);
  b->speaks = false;
  for (int n = 0; n < 8 && !stable; n++) {
    known start = take_known(b), after;
    walk_round(b, c, &in, reach, number);
    after = take_known(b);
    put_back(b, &start);
    stable = join(b, &after); /* what its end knows, its start knew */
  }
  b->speaks = speaks;
  known start = take_known(b);
  if (speaks) walk_round(b, c, &in, reach, number);
  join(b, &start);
  join(b, &b->loops[number].out);
}

/* A break may leave a switch; a continue goes to the loop around it. */
static void leave_loop(body *b, gs_cursor c, unsigned reach) {
  int at = b->nopen - 1;
  while (c.kind == CX_CONTINUE && at >= 0 && b->open[at] < 0) at--;
  int number = at >= 0 ? b->open[at] : -1;
  if (number < 0) return;
  grow(b, &b->loops[number].bits, reach & DIFFERS);
  known now = take_known(b);
  known *out = &b->loops[number].out;
  for (int i = 0; i < out->n && i < now.n; i++) now.bits[i] |= out->bits[i];
  *out = now;
}

static void leave_kernel(body *b, unsigned reach) {
  for (int i = 0; i < b->nopen; i++)
    if (b->open[i] >= 0) grow(b, &b->loops[b->open[i]].bits, reach & DIFFERS);
  b->returned |= reach & DIFFERS;
}

/* A written cast holds one that is not written, to the same type: that one is no matter. */
static unsigned walk_cast(body *b, gs_cursor c, unsigned reach) {
  cursors in = children_of(b->l, c);
  bool written = c.kind != CX_UNEXPOSED_EXPR;
  unsigned bits = 0;
  for (int i = 0; i < in.n; i++) {
    bool inner =
        written && in.v[i].kind == CX_UNEXPOSED_EXPR && type_kind(b, in.v[i]) == type_kind(b, c);
    bits |= inner ? walk_all(b, in.v[i], reach) : walk(b, in.v[i], reach);
  }
  check_narrowing(b, c, bits, written);
  return is_int32(type_kind(b, c)) ? bits & ~(unsigned)PRODUCT : bits;
}

static unsigned walk(body *b, gs_cursor c, unsigned reach) {
  if (b->speaks && is_expr(c) &&
      (type_kind(b, c) == CX_T_DOUBLE || type_kind(b, c) == CX_T_LONGDOUBLE))
    complain(b->l, c, "computes in f64: kernels use f32, and its numbers end in f (1.0f)");
  switch (c.kind) {
  case CX_DECL_REF: return walk_ref(b, c);
  case CX_SUBSCRIPT: return walk_subscript(b, c, reach);
  case CX_CALL: return walk_call(b, c, reach);
  case CX_BINARY:
  case CX_COMPOUND_ASSIGN: return walk_binary(b, c, reach);
  case CX_UNARY: return walk_unary(b, c, reach);
  case CX_CONDITIONAL: return walk_conditional(b, c, reach);
  case CX_UNEXPOSED_EXPR:
  case CX_C_CAST:
  case CX_STATIC_CAST:
  case CX_FUNCTIONAL_CAST: return walk_cast(b, c, reach);
  case CX_VAR: return walk_var(b, c, reach), 0;
  case CX_IF:
  case CX_SWITCH: return walk_choice(b, c, reach), 0;
  case CX_WHILE:
  case CX_DO:
  case CX_FOR: return walk_loop(b, c, reach), 0;
  case CX_BREAK:
  case CX_CONTINUE: return leave_loop(b, c, reach), 0;
  case CX_RETURN: return walk_all(b, c, reach), leave_kernel(b, reach), 0;
  default: return walk_all(b, c, reach);
  }
}

void lint_body(look *l, gs_cursor function) {
  body b = {.l = l};
  cursors in = children_of(l, function);
  for (int round = 0; round < 12; round++) {
    b.grew = false;
    b.returned = 0;
    for (int i = 0; i < b.nvars; i++) b.vars[i].bits = 0;
    for (int i = 0; i < in.n; i++)
      if (in.v[i].kind != CX_PARAM) walk(&b, in.v[i], 0);
    if (b.speaks) break;
    b.speaks = !b.grew || round == 10;
  }
}
