/* uses: gs_model */
/* test_safetensors.c: the reader against files written by hand, byte by byte: right ones, hostile
 * ones, cut ones, ones with each bit of the header turned; shards; the writer against known bytes.
 */
#include "base/file.h"
#include "model/safetensors.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char dir[256], path[512];
static gs_error err;

static void setup(void) {
  cr_assert(gs_temp_dir(dir, sizeof dir, &err) == GS_OK, "%s", err.message);
  snprintf(path, sizeof path, "%s/model.safetensors", dir);
}
static void teardown(void) {
  gs_remove_tree(dir);
}
TestSuite(safetensors, .init = setup, .fini = teardown);

/* A file of this header (its length in front, as given or true) and bytes of data: 0, 1, 2, ... */
static size_t make(unsigned char *buf, const char *header, size_t data) {
  size_t n = strlen(header);
  for (int i = 0; i < 8; i++) buf[i] = (unsigned char)(n >> 8 * i);
  memcpy(buf + 8, header, n);
  for (size_t i = 0; i < data; i++) buf[8 + n + i] = (unsigned char)i;
  return 8 + n + data;
}

/* Without the library's syncing, which would make thousands of small files slow. */
static void write_at(const char *where, const void *data, size_t n) {
  FILE *f = fopen(where, "wb");
  cr_assert(f && fwrite(data, 1, n, f) == n && fclose(f) == 0, "%s", where);
}

static gs_status open_header(const char *header, size_t data, gs_weights **w) {
  unsigned char buf[8192];
  write_at(path, buf, make(buf, header, data));
  memset(&err, 0, sizeof err);
  return gs_weights_open(path, w, &err);
}

#define A32 "\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}"
#define B16 "\"b\":{\"dtype\":\"BF16\",\"shape\":[3],\"data_offsets\":[24,30]}"

Test(safetensors, reads_what_is_there) {
  gs_weights *w;
  cr_assert(open_header("{\"__metadata__\":{\"format\":\"pt\"}," B16 "," A32 "}  ", 30, &w) ==
                GS_OK,
            "%s", err.message);
  cr_assert_eq(gs_weights_count(w), 2);
  const gs_weight *a = gs_weights_at(w, 0), *b = gs_weights_find(w, "b");
  cr_assert_str_eq(a->name, "a");
  cr_assert(a->type == GS_F32 && a->ndims == 2 && a->shape[0] == 2 && a->shape[1] == 3);
  cr_assert(a->bytes == 24 && ((const unsigned char *)a->data)[23] == 23);
  cr_assert(b->type == GS_BF16 && b->ndims == 1 && b->shape[0] == 3 && b->bytes == 6);
  cr_assert_eq(((const unsigned char *)b->data)[5], 29);
  cr_assert_null(gs_weights_find(w, "c"));
  cr_assert_null(gs_weights_at(w, 2));
  cr_assert_str_eq(gs_weights_metadata(w, "format"), "pt");
  cr_assert_null(gs_weights_metadata(w, "other"));
  gs_weights_close(w);
}

Test(safetensors, every_dtype_scalar_and_empty) {
  gs_weights *w;
  cr_assert(open_header("{\"i64\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[0,8]},"
                        "\"i32\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[8,12]},"
                        "\"f16\":{\"dtype\":\"F16\",\"shape\":[1,1],\"data_offsets\":[12,14]},"
                        "\"u8\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[14,15]},"
                        "\"bool\":{\"dtype\":\"BOOL\",\"shape\":[1],\"data_offsets\":[15,16]},"
                        "\"none\":{\"dtype\":\"F32\",\"shape\":[9999999999,0,9999999999],"
                        "\"data_offsets\":[8,8]},"
                        "\"f64\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[16,24]}}",
                        24, &w) == GS_OK,
            "%s", err.message);
  cr_assert_eq(gs_weights_find(w, "i64")->ndims, 0);
  cr_assert_eq(gs_weights_find(w, "bool")->type, GS_BOOL);
  cr_assert_eq(gs_weights_find(w, "u8")->type, GS_U8);
  cr_assert_eq(gs_weights_find(w, "f16")->type, GS_F16);
  cr_assert_eq(gs_weights_find(w, "none")->bytes, 0);
  /* a type that is not computed with: opens, and is refused by name when asked for */
  const gs_weight *t;
  cr_assert_eq(gs_weights_find(w, "f64")->type, GS_TYPE_NONE);
  cr_assert_eq(gs_weights_get(w, "f64", &t, &err), GS_ERR_INPUT);
  cr_assert(strstr(err.message, "\"f64\"") && strstr(err.message, "F64"), "%s", err.message);
  cr_assert_eq(gs_weights_get(w, "i32", &t, &err), GS_OK);
  cr_assert_eq(gs_weights_get(w, "absent", &t, &err), GS_ERR_INPUT);
  gs_weights_close(w);
}

Test(safetensors, data_that_the_file_does_not_align_is_aligned) {
  for (size_t pad = 0; pad < 9; pad++) {
    char header[512];
    gs_weights *w;
    snprintf(header, sizeof header, "{%s}%.*s", A32 "," B16, (int)pad, "         ");
    cr_assert(open_header(header, 30, &w) == GS_OK, "%s", err.message);
    const gs_weight *a = gs_weights_find(w, "a"), *b = gs_weights_find(w, "b");
    cr_assert_eq((uintptr_t)a->data % 4, 0);
    cr_assert_eq((uintptr_t)b->data % 2, 0);
    cr_assert_eq(((const unsigned char *)a->data)[7], 7);
    cr_assert_eq(((const unsigned char *)b->data)[5], 29);
    gs_weights_close(w);
  }
}

#define ENTRY(d, s, o) "{\"a\":{\"dtype\":" d ",\"shape\":" s ",\"data_offsets\":" o "}}"

static const struct {
  const char *header;
  size_t data;
  const char *says; /* part of the message */
} hostile[] = {
    {"[]", 0, "begin"},
    {"{", 0, "JSON"},
    {"{\"a\":1}", 0, "\"a\""},
    {"{\"a\":[]}", 0, "\"a\""},
    {"{\"a\":{}}", 0, "dtype"},
    {"{} x", 0, "JSON"},
    {"{}", 5, "end at byte 0"},
    {"{\"\xff\":{}}", 0, "JSON"},
    {"{" A32 "," A32 "}", 24, "JSON"},
    {"{\"__metadata__\":1}", 0, "__metadata__"},
    {"{\"__metadata__\":{\"k\":1}}", 0, "\"k\""},
    {ENTRY("\"F32\"", "[2]", "[0,8],\"more\":1"), 8, "other than"},
    {ENTRY("\"F99\"", "[2]", "[0,8]"), 8, "F99"},
    {ENTRY("7", "[2]", "[0,8]"), 8, "dtype"},
    {ENTRY("\"F32\"", "2", "[0,8]"), 8, "shape"},
    {ENTRY("\"F32\"", "[2.0]", "[0,8]"), 8, "shape"},
    {ENTRY("\"F32\"", "[-2]", "[0,8]"), 8, "shape"},
    {ENTRY("\"F32\"", "[null]", "[0,8]"), 8, "shape"},
    {ENTRY("\"F32\"", "[1,1,1,1,1,1,2]", "[0,8]"), 8, "7 dims"},
    {ENTRY("\"F32\"", "[3]", "[0,8]"), 8, "do not make"},
    {ENTRY("\"BF16\"", "[2]", "[0,8]"), 8, "do not make"},
    {ENTRY("\"F4\"", "[3]", "[0,1]"), 1, "do not make"},
    {ENTRY("\"F32\"", "[4294967296,4294967296]", "[0,0]"), 0, "elements"},
    {ENTRY("\"U8\"", "[4294967296,4294967297]", "[0,4294967296]"), 9, "elements"},
    {ENTRY("\"F32\"", "[4611686018427387904]", "[0,0]"), 0, "do not make"},
    {ENTRY("\"F64\"", "[2305843009213693952]", "[0,0]"), 0, "do not make"},
    {ENTRY("\"U8\"", "[99999999999999999999]", "[0,8]"), 8, "JSON"},
    {ENTRY("\"F32\"", "[2]", "[8,0]"), 8, "outside"},
    {ENTRY("\"F32\"", "[2]", "[0,9223372036854775807]"), 8, "outside"},
    {ENTRY("\"U8\"", "[2147483648]", "[0,2147483648]"), 900, "outside"},
    {ENTRY("\"F32\"", "[2]", "[-8,0]"), 8, "data_offsets"},
    {ENTRY("\"F32\"", "[2]", "[0]"), 8, "data_offsets"},
    {ENTRY("\"F32\"", "[2]", "[0,8,8]"), 8, "data_offsets"},
    {ENTRY("\"F32\"", "[2]", "[0,\"8\"]"), 8, "data_offsets"},
    {ENTRY("\"F32\"", "[2]", "[4,12]"), 12, "no tensor"},
    {ENTRY("\"F32\"", "[2]", "[0,8]"), 9, "end at byte 8"},
    {"{" A32 ",\"b\":{\"dtype\":\"U8\",\"shape\":[10],\"data_offsets\":[20,30]}}", 30, "overlap"},
    {"{" A32 ",\"b\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[3,3]}}", 24, "overlap"},
};

Test(safetensors, hostile_headers_are_refused_with_a_reason) {
  for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
    gs_weights *w;
    cr_assert_eq(open_header(hostile[i].header, hostile[i].data, &w), GS_ERR_INPUT, "%s opened",
                 hostile[i].header);
    cr_assert_null(w);
    cr_assert(strstr(err.message, hostile[i].says) && strstr(err.message, path), "%s: %s",
              hostile[i].header, err.message);
  }
}

Test(safetensors, header_lengths_that_lie) {
  static const uint64_t lengths[] = {0,
                                     1,
                                     7,
                                     200,
                                     100000001,
                                     0x7fffffff,
                                     0xffffffff,
                                     UINT64_MAX,
                                     UINT64_MAX - 7,
                                     INT64_MAX,
                                     UINT64_MAX - 8};
  unsigned char buf[512];
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    gs_weights *w;
    size_t n = make(buf, "{" A32 "}", 24);
    for (int k = 0; k < 8; k++) buf[k] = (unsigned char)(lengths[i] >> 8 * k);
    write_at(path, buf, n);
    cr_assert_eq(gs_weights_open(path, &w, &err), GS_ERR_INPUT, "length %zu opened",
                 (size_t)lengths[i]);
    if (lengths[i] > n - 8) cr_assert(strstr(err.message, "byte 0: header of"), "%s", err.message);
  }
}

Test(safetensors, cut_at_every_byte) {
  unsigned char buf[512];
  gs_weights *w;
  size_t n = make(buf, "{\"__metadata__\":{\"format\":\"pt\"}," A32 "," B16 "}", 30);
  for (size_t cut = 0; cut < n; cut++) {
    write_at(path, buf, cut);
    cr_assert_eq(gs_weights_open(path, &w, &err), GS_ERR_INPUT, "opened after %zu bytes", cut);
  }
  write_at(path, buf, n);
  cr_assert_eq(gs_weights_open(path, &w, &err), GS_OK);
  gs_weights_close(w);
}

/* Every byte that an opened file claims is read: the sanitizers watch. */
static unsigned touch(const gs_weights *w) {
  unsigned sum = 0;
  for (int i = 0; i < gs_weights_count(w); i++) {
    const gs_weight *t = gs_weights_at(w, i);
    for (size_t k = 0; k < t->bytes; k++) sum += ((const unsigned char *)t->data)[k];
  }
  return sum;
}

Test(safetensors, each_bit_of_the_header_turned) {
  unsigned char buf[512];
  size_t n = make(buf, "{\"__metadata__\":{\"format\":\"pt\"}," A32 "," B16 "}", 30), opened = 0;
  unsigned sum = 0;
  write_at(path, buf, n);
  int fd = open(path, O_WRONLY);
  for (size_t bit = 0; bit < 8 * (n - 30); bit++) {
    gs_weights *w;
    unsigned char turned = (unsigned char)(buf[bit / 8] ^ 1u << bit % 8);
    cr_assert_eq(pwrite(fd, &turned, 1, (off_t)(bit / 8)), 1);
    if (gs_weights_open(path, &w, &err) == GS_OK) {
      opened++; /* a changed name, or F16 for BF16's size */
      sum += touch(w);
    }
    gs_weights_close(w);
    cr_assert_eq(pwrite(fd, &buf[bit / 8], 1, (off_t)(bit / 8)), 1);
  }
  close(fd);
  cr_assert(opened > 0 && opened < 200 && sum > 0, "%zu opened", opened);
}

Test(safetensors, what_is_no_file) {
  gs_weights *w;
  char absent[600];
  snprintf(absent, sizeof absent, "%s/absent", dir);
  cr_assert_eq(gs_weights_open(absent, &w, &err), GS_ERR_IO);
  cr_assert(strstr(err.message, absent));
  cr_assert_eq(gs_weights_open(dir, &w, &err), GS_ERR_INPUT, "an empty folder");
  cr_assert(strstr(err.message, "model.safetensors"));
}

/* ---- shards ---- */

static void write_shard(const char *name, const char *header, size_t data) {
  unsigned char buf[1024];
  char where[600];
  snprintf(where, sizeof where, "%s/%s", dir, name);
  write_at(where, buf, make(buf, header, data));
}

static gs_status open_index(const char *map, gs_weights **w) {
  char text[1024], where[600];
  int n = snprintf(text, sizeof text, "{\"metadata\":{\"total_size\":1},\"weight_map\":%s}", map);
  snprintf(where, sizeof where, "%s/model.safetensors.index.json", dir);
  write_at(where, text, (size_t)n);
  return gs_weights_open(dir, w, &err);
}

#define ONE(name) "{\"" name "\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}"

Test(safetensors, shards) {
  gs_weights *w;
  write_shard("m1.safetensors", "{" A32 "," B16 "}", 30);
  write_shard("m2.safetensors", ONE("c"), 4);
  cr_assert(open_index("{\"c\":\"m2.safetensors\",\"a\":\"m1.safetensors\"}", &w) == GS_OK, "%s",
            err.message);
  cr_assert_eq(gs_weights_count(w), 2, "b is not in the index");
  cr_assert_str_eq(gs_weights_at(w, 0)->name, "a");
  cr_assert_eq(touch(w), 23 * 24 / 2 + 6);
  cr_assert_null(gs_weights_find(w, "b"));
  gs_weights_close(w);
}

static const struct {
  const char *map, *says;
} bad_index[] = {
    {"{\"a\":\"m1.safetensors\",\"c\":\"m3.safetensors\"}", "m3.safetensors"},
    {"{\"a\":\"m2.safetensors\",\"c\":\"m2.safetensors\"}", "\"a\""},
    {"{\"a\":\"m1.safetensors\",\"d\":\"m2.safetensors\"}", "\"d\""},
    {"{\"c\":\"m2.safetensors\",\"e\":\"twice.safetensors\"}", "both"},
    {"{\"a\":\"../m1.safetensors\"}", "\"a\""},
    {"{\"a\":\"..\"}", "\"a\""},
    {"{\"a\":\"\"}", "\"a\""},
    {"{\"a\":7}", "\"a\""},
    {"[]", "weight_map"},
    {"{\"a\":\"m1.safetensors\",\"a\":\"m1.safetensors\"}", "JSON"},
};

Test(safetensors, index_and_shards_that_disagree) {
  gs_weights *w;
  write_shard("m1.safetensors", "{" A32 "," B16 "}", 30);
  write_shard("m2.safetensors", ONE("c"), 4);
  write_shard("twice.safetensors",
              "{\"c\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
              "\"e\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]}}",
              8);
  for (size_t i = 0; i < sizeof bad_index / sizeof *bad_index; i++) {
    cr_assert_eq(open_index(bad_index[i].map, &w), GS_ERR_INPUT, "%s opened", bad_index[i].map);
    cr_assert(strstr(err.message, bad_index[i].says), "%s: %s", bad_index[i].map, err.message);
  }
}

/* ---- the writer ---- */

Test(safetensors, writes_the_bytes_of_the_reference) {
  static const float f[2] = {1, 2};
  static const uint16_t h[3] = {1, 2, 3};
  static const char *const metadata[] = {"format", "pt", NULL};
  const gs_weight t[] = {{"z", GS_BF16, 1, {3}, h, 6},
                         {"b\"\n", GS_F32, 2, {2, 1}, f, 8},
                         {"a", GS_BF16, 1, {1}, h, 2},
                         {"e", GS_F32, 1, {0}, NULL, 0}};
  cr_assert(gs_safetensors_write(path, t, 4, metadata, &err) == GS_OK, "%s", err.message);
  static const char want[] =
      "{\"__metadata__\":{\"format\":\"pt\"},"
      "\"b\\\"\\n\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[0,8]},"
      "\"e\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[8,8]},"
      "\"a\":{\"dtype\":\"BF16\",\"shape\":[1],\"data_offsets\":[8,10]},"
      "\"z\":{\"dtype\":\"BF16\",\"shape\":[3],\"data_offsets\":[10,16]}}";
  char *data;
  size_t len, header = (sizeof want - 1 + 7) / 8 * 8;
  cr_assert_eq(gs_file_read(path, &data, &len, &err), GS_OK);
  cr_assert_eq(len, 8 + header + 16);
  cr_assert_eq((size_t)((unsigned char)data[0] | (unsigned char)data[1] << 8), header);
  cr_assert(memcmp(data + 8, want, sizeof want - 1) == 0, "%.*s", (int)header, data + 8);
  for (size_t i = sizeof want - 1; i < header; i++) cr_assert_eq(data[8 + i], ' ');
  cr_assert(memcmp(data + 8 + header, f, 8) == 0 && memcmp(data + 8 + header + 10, h, 6) == 0);
  free(data);
  gs_weights *w;
  cr_assert(gs_weights_open(dir, &w, &err) == GS_OK, "%s", err.message);
  cr_assert_eq(gs_weights_count(w), 4);
  gs_weights_close(w);
}

Test(safetensors, the_header_is_padded_to_eight_bytes) {
  for (int extra = 0; extra < 8; extra++) {
    unsigned char byte = 7;
    char name[16] = "aaaaaaaaaaaaaaa", *data;
    size_t len;
    name[1 + extra] = 0;
    const gs_weight t = {name, GS_U8, 1, {1}, &byte, 1};
    cr_assert_eq(gs_safetensors_write(path, &t, 1, NULL, &err), GS_OK);
    cr_assert_eq(gs_file_read(path, &data, &len, &err), GS_OK);
    cr_assert_eq(len % 8, 1, "name of %d", 1 + extra);
    cr_assert_eq(data[len - 1], 7);
    free(data);
  }
}

Test(safetensors, writes_in_pieces_or_not_at_all) {
  unsigned char bytes[10] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  const gs_weight t[] = {{"a", GS_U8, 1, {4}, NULL, 4}, {"b", GS_U8, 1, {6}, NULL, 6}};
  gs_safetensors_out *o;
  cr_assert_eq(gs_safetensors_begin(path, t, 2, NULL, &o, &err), GS_OK);
  cr_assert_eq(gs_safetensors_next(o), 0);
  cr_assert_eq(gs_safetensors_put(o, bytes, 3, &err), GS_OK);
  cr_assert_eq(gs_safetensors_put(o, bytes, 2, &err), GS_ERR_USE, "more than a has");
  cr_assert_eq(gs_safetensors_put(o, bytes + 3, 1, &err), GS_OK);
  cr_assert_eq(gs_safetensors_next(o), 1);
  cr_assert_not(gs_path_exists(path));
  cr_assert_eq(gs_safetensors_end(o, &err), GS_ERR_USE, "b is missing");
  cr_assert_not(gs_path_exists(path));

  cr_assert_eq(gs_safetensors_begin(path, t, 2, NULL, &o, &err), GS_OK);
  cr_assert_eq(gs_safetensors_put(o, bytes, 4, &err), GS_OK);
  cr_assert_eq(gs_safetensors_put(o, bytes + 4, 6, &err), GS_OK);
  cr_assert_eq(gs_safetensors_next(o), -1);
  cr_assert_eq(gs_safetensors_put(o, bytes, 1, &err), GS_ERR_USE);
  cr_assert_eq(gs_safetensors_end(o, &err), GS_OK);
  gs_weights *w;
  cr_assert_eq(gs_weights_open(path, &w, &err), GS_OK);
  cr_assert_eq(((const unsigned char *)gs_weights_find(w, "b")->data)[5], 10);
  gs_weights_close(w);
}

Test(safetensors, refuses_to_write_nonsense) {
  unsigned char bytes[8] = {0};
  const gs_weight twice[] = {{"a", GS_U8, 1, {4}, bytes, 4}, {"a", GS_U8, 1, {4}, bytes, 4}};
  const gs_weight size[] = {{"a", GS_F32, 1, {4}, bytes, 4}};
  const gs_weight type[] = {{"a", GS_TYPE_NONE, 1, {4}, bytes, 4}};
  const gs_weight name[] = {{"\xff", GS_U8, 1, {4}, bytes, 4}};
  cr_assert_eq(gs_safetensors_write(path, twice, 2, NULL, &err), GS_ERR_USE);
  cr_assert_eq(gs_safetensors_write(path, size, 1, NULL, &err), GS_ERR_USE);
  cr_assert_eq(gs_safetensors_write(path, type, 1, NULL, &err), GS_ERR_USE);
  cr_assert_eq(gs_safetensors_write(path, name, 1, NULL, &err), GS_ERR_USE);
  cr_assert_not(gs_path_exists(path));
  snprintf(path, sizeof path, "%s/no/such/folder.safetensors", dir);
  cr_assert_eq(gs_safetensors_write(path, size, 0, NULL, &err), GS_ERR_IO);
}
