-- gs.cuda: 'char' is a dim, or a word that CUDA C
local gs = require "gradsmith"

return gs.layer "own_scale" {
  doc  = "y = char·sum(char)",
  dims = { "T", "H" },
  char    = gs.input { "T", "H" },

  forward = function(p) return { y = p.char * gs.sum(p.char, "H") } end,

  backward = function(p, d, s)
    return { char = d.y * gs.sum(p.char, "H") + gs.sum(d.y * p.char, "H") }
  end,

  body = gs.cuda [[
//@ forward grid=T threads=64
  GS_SHARED(f32, scratch, 64);
  const i64 row = GS_BID;
  f32 sum = 0.0f;
  for (int i = GS_TID; i < H; i += 64) sum += gs_get(char, row * char_ld + i);
  scratch[GS_TID] = sum;
  GS_SYNC();
  sum = 0.0f;
  for (int k = 0; k < 64; k++) sum += scratch[k];
  for (int i = GS_TID; i < H; i += 64) gs_put(y, row * y_ld + i, gs_get(char, row * char_ld + i) * sum);

//@ backward grid=T threads=64
  GS_SHARED(f32, scratch, 32);
  const i64 row = GS_BID;
  f32 sum = 0.0f, dot = 0.0f;
  for (int i = GS_TID; i < H; i += 64) {
    sum += gs_get(char, row * char_ld + i);
    dot += gs_get(char, row * char_ld + i) * gs_get(dy, row * dy_ld + i);
  }
  sum = GS_BLOCK_SUM(sum, scratch);
  dot = GS_BLOCK_SUM(dot, scratch);
  for (int i = GS_TID; i < H; i += 64)
    gs_put(dchar, row * dchar_ld + i, gs_get(dy, row * dy_ld + i) * sum + dot);
]],
}
