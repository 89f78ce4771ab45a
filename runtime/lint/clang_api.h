/* clang_api.h: the part of libclang's C interface that lint calls, the same from version 14 on.
 * Written from the documented stable interface, so that building needs no header of LLVM. Private
 * to runtime/lint. */
#ifndef GS_LINT_CLANG_API_H
#define GS_LINT_CLANG_API_H

typedef struct gs_cx_string {
  const void *data;
  unsigned flags;
} gs_cx_string;
typedef struct gs_cursor {
  int kind, xdata;
  const void *data[3];
} gs_cursor;
typedef struct gs_cx_type {
  int kind;
  void *data[2];
} gs_cx_type;
typedef struct gs_cx_at {
  const void *ptr[2];
  unsigned n;
} gs_cx_at;
typedef struct gs_cx_range {
  const void *ptr[2];
  unsigned begin, end;
} gs_cx_range;
typedef struct gs_cx_token {
  unsigned n[4];
  void *ptr;
} gs_cx_token;
typedef struct gs_cx_file {
  const char *name, *text;
  unsigned long len;
} gs_cx_file;
typedef struct gs_cx_unit_tag *gs_cx_unit;
typedef int (*gs_cx_visitor)(gs_cursor c, gs_cursor parent, void *context);

enum {                        /* CXCursorKind */
       CX_UNEXPOSED_DECL = 1, /* extern "C" in older versions */
       CX_ENUM = 5,
       CX_FUNCTION = 8,
       CX_VAR = 9,
       CX_PARAM = 10,
       CX_NAMESPACE = 22,
       CX_LINKAGE_SPEC = 23,
       CX_FIRST_EXPR = 100,
       CX_UNEXPOSED_EXPR = 100,
       CX_DECL_REF = 101,
       CX_CALL = 103,
       CX_PAREN = 111,
       CX_UNARY = 112,
       CX_SUBSCRIPT = 113,
       CX_BINARY = 114,
       CX_COMPOUND_ASSIGN = 115,
       CX_CONDITIONAL = 116,
       CX_C_CAST = 117,
       CX_STATIC_CAST = 124,
       CX_FUNCTIONAL_CAST = 128,
       CX_LAST_EXPR = 199,
       CX_IF = 205,
       CX_SWITCH = 206,
       CX_WHILE = 207,
       CX_DO = 208,
       CX_FOR = 209,
       CX_CONTINUE = 212,
       CX_BREAK = 213,
       CX_RETURN = 214,
       CX_ANNOTATE = 406,
};
enum { /* CXTypeKind */
       CX_T_UINT = 9,
       CX_T_ULONGLONG = 11,
       CX_T_INT = 17,
       CX_T_LONG = 18,
       CX_T_LONGLONG = 19,
       CX_T_ULONG = 10,
       CX_T_DOUBLE = 22,
       CX_T_LONGDOUBLE = 23,
       CX_T_POINTER = 101,
       CX_T_LREF = 103,
};
enum { CX_GO_ON = 1, CX_ERROR = 3 };

/* field, symbol, result, parameters */
#define GS_CLANG_FUNCTIONS(F)                                                                      \
  F(index, "clang_createIndex", void *, (int, int))                                                \
  F(drop_index, "clang_disposeIndex", void, (void *))                                              \
  F(parse, "clang_parseTranslationUnit2", int,                                                     \
    (void *, const char *, const char *const *, int, gs_cx_file *, unsigned, unsigned,             \
     gs_cx_unit *))                                                                                \
  F(drop_unit, "clang_disposeTranslationUnit", void, (gs_cx_unit))                                 \
  F(root, "clang_getTranslationUnitCursor", gs_cursor, (gs_cx_unit))                               \
  F(visit, "clang_visitChildren", unsigned, (gs_cursor, gs_cx_visitor, void *))                    \
  F(spelling, "clang_getCursorSpelling", gs_cx_string, (gs_cursor))                                \
  F(type, "clang_getCursorType", gs_cx_type, (gs_cursor))                                          \
  F(canonical, "clang_getCanonicalType", gs_cx_type, (gs_cx_type))                                 \
  F(arg_type, "clang_getArgType", gs_cx_type, (gs_cx_type, unsigned))                              \
  F(referenced, "clang_getCursorReferenced", gs_cursor, (gs_cursor))                               \
  F(equal, "clang_equalCursors", unsigned, (gs_cursor, gs_cursor))                                 \
  F(hash, "clang_hashCursor", unsigned, (gs_cursor))                                               \
  F(location, "clang_getCursorLocation", gs_cx_at, (gs_cursor))                                    \
  F(presumed, "clang_getPresumedLocation", void,                                                   \
    (gs_cx_at, gs_cx_string *, unsigned *, unsigned *))                                            \
  F(extent, "clang_getCursorExtent", gs_cx_range, (gs_cursor))                                     \
  F(range_start, "clang_getRangeStart", gs_cx_at, (gs_cx_range))                                   \
  F(range_end, "clang_getRangeEnd", gs_cx_at, (gs_cx_range))                                       \
  F(range, "clang_getRange", gs_cx_range, (gs_cx_at, gs_cx_at))                                    \
  F(tokenize, "clang_tokenize", void, (gs_cx_unit, gs_cx_range, gs_cx_token **, unsigned *))       \
  F(drop_tokens, "clang_disposeTokens", void, (gs_cx_unit, gs_cx_token *, unsigned))               \
  F(token, "clang_getTokenSpelling", gs_cx_string, (gs_cx_unit, gs_cx_token))                      \
  F(enum_value, "clang_getEnumConstantDeclValue", long long, (gs_cursor))                          \
  F(ndiagnostics, "clang_getNumDiagnostics", unsigned, (gs_cx_unit))                               \
  F(diagnostic, "clang_getDiagnostic", void *, (gs_cx_unit, unsigned))                             \
  F(drop_diagnostic, "clang_disposeDiagnostic", void, (void *))                                    \
  F(severity, "clang_getDiagnosticSeverity", int, (void *))                                        \
  F(diagnostic_text, "clang_getDiagnosticSpelling", gs_cx_string, (void *))                        \
  F(diagnostic_at, "clang_getDiagnosticLocation", gs_cx_at, (void *))                              \
  F(text, "clang_getCString", const char *, (gs_cx_string))                                        \
  F(drop_string, "clang_disposeString", void, (gs_cx_string))

typedef struct gs_clang_api {
#define GS_FIELD(field, symbol, result, params) result(*field) params;
  GS_CLANG_FUNCTIONS(GS_FIELD)
#undef GS_FIELD
} gs_clang_api;

#endif
