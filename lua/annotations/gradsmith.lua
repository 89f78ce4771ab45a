---@meta gradsmith
-- What an editor with LuaLS (lua-language-server) shows and completes in layer files; see
-- ../README.md. Nothing runs this file. A test holds its names against the library's.

---An expression over named dims, in f32 arithmetic. Operators broadcast by the names of dims.
---@class gs.Value
---@operator add(gs.Number): gs.Value
---@operator sub(gs.Number): gs.Value
---@operator mul(gs.Number): gs.Value
---@operator div(gs.Number): gs.Value
---@operator pow(gs.Number): gs.Value
---@operator unm: gs.Value
---@field type gs.Type the storage type of an input or of a rounded value

---A value or a number.
---@alias gs.Number gs.Value|number
---A comparison: for gs.where, gs.and_, gs.or_, gs.not_, gs.real.
---@alias gs.Truth gs.Value
---The name of a dim: declared, or made by a view.
---@alias gs.Dim string
---One dim, a list of dims, or "all".
---@alias gs.Dims string|string[]
---@alias gs.Type "f32"|"bf16"|"f16"|"e4m3"|"e5m2"|"e8m0"|"i64"|"i32"|"i8"|"u8"
---@alias gs.Order "high-first"|"low-first"

---A table of constants: `t[i]` with an integer value gives the i-th from 0, `#t` their number.
---@class gs.Table
---@operator len: integer
---@field [gs.Number] gs.Value

---@class gs.Parameter

---@class gs.Output
---@field type? gs.Type
---@field grad? boolean false: no gradient comes in for it
---@field optional? boolean an option may leave it out

---What backward may return besides gradients.
---@class gs.Gradients
---@field recomputed? table<string, gs.Value> outputs made again from what backward reads anyway
---@field [string] gs.Number

---d: incoming gradients; s: outputs and saved values.
---@alias gs.Values table<string, gs.Value>
---@alias gs.Backward fun(p: table, d: gs.Values, s: gs.Values): gs.Gradients

---@class gs.Spec
---@field doc? string one line of mathematics
---@field dims string[]|table<string, string|integer> in storage order; `h = "D/2"` is derived
---@field outer? string[] dims whose sizes are launch arguments; the first dim unless said
---@field outputs? table<string|integer, string|gs.Output> order and storage types of outputs
---@field inplace? table<string, string> a result may take the memory of a tensor
---@field body? gs.Parameter gs.cuda: kernels that are not derived
---@field forward fun(p: table): table p: parameters by name; returns outputs and `save = {...}`
---@field backward? gs.Backward|gs.Derived
---@field [string] any

---@class gs.Layer
---@class gs.Derived

---@class gs.Drawn
---@field range? table checks draw values in `{ low, high }`: numbers or names of dims; `{ low }`
---@field also? number[] single values that checks draw now and then
---@field optional? boolean an option may leave it unread

---@class gs.Tensor: gs.Drawn
---@field type? gs.Type without it the layer's storage type
---@field grad? boolean false: no gradient is asked for
---@field ascending? boolean checks draw sorted values
---@field offsets? gs.Dim checks draw where pieces of that dim begin, from 0, and the last one ends
---@field [integer] gs.Dim

---@class gs
local gs = {}

---A layer: `gs.layer "name" { dims = ..., forward = ..., backward = ... }`.
---@param name string
---@return fun(spec: gs.Spec): gs.Layer
function gs.layer(name) end

---A layer without backward: optimizers, quantisers, tables.
---@param name string
---@return fun(spec: gs.Spec): gs.Layer
function gs.kernel(name) end

---Where a query and a key of its document stand: `q`, `k` (only in score and dscore), counted from
---the document's first key; `nq`, `nk`: its queries and keys; `head` (only in score and dscore).
---@class gs.Pair
---@field q gs.Value
---@field k gs.Value
---@field nq gs.Value
---@field nk gs.Value
---@field head gs.Value

---@alias gs.Score fun(s: gs.Value, i: gs.Pair, p: table): gs.Number
---@alias gs.Slope fun(dz: gs.Value, s: gs.Value, i: gs.Pair, p: table, z: gs.Value): gs.Number
---@alias gs.Keys fun(i: gs.Pair, p: table): gs.Number, gs.Number

---@class gs.AttentionSpec
---@field doc? string one line of mathematics
---@field score gs.Score what is exponentiated; s = scale·q·k
---@field dscore gs.Slope the gradient of s from that of z = score(s, i, p)
---@field keys gs.Keys the first and the last key that a query sees
---@field sink_logit? fun(p: table): gs.Value? a parameter over { "K", "G" }: it has no value
---@field [string] any parameters of its own, over { "K", "G" } or, by document, { "B1" }; options

---Softmax attention over documents: `gs.attention "name" { score = ..., dscore =, keys = }`.
---It has the dims T, S, B1, K, G, D and the inputs q, k, v, cu_q, cu_k, scale.
---@param name string
---@return fun(spec: gs.AttentionSpec): gs.Layer
function gs.attention(name) end

---In the place of backward: the compiler's adjoint of forward, simplified.
---@type gs.Derived
gs.derived = nil

---Layers in turn: `gs.fuse(a, b, { x = "h" }, c ...)`: output h feeds input x of b; a dim of b may
---be one of a's by another name, `{ H = "F" }`.
---@param a gs.Layer
---@param b gs.Layer
---@param ... gs.Layer|table<string, string>
---@return gs.Layer
function gs.fuse(a, b, ...) end

---Layers side by side: `gs.beside(a, { x = "q" }, b, { x = "k" })`: new names for inputs, outputs,
---dims; inputs of the same name and shape are one.
---@param a gs.Layer
---@param ... gs.Layer|table<string, string>
---@return gs.Layer
function gs.beside(a, ...) end

---A tensor: `gs.input { "T", "H", type = "i32", range = { 0, "V" } }`.
---@param spec gs.Tensor
---@return gs.Parameter
function gs.input(spec) end

---A trained parameter: like gs.input, its gradient is f32.
---@param spec gs.Tensor
---@return gs.Parameter
function gs.weight(spec) end

---A number fixed for the run: `gs.scalar(1e-6)`.
---@param value number|gs.Drawn
---@return gs.Parameter
function gs.scalar(value) end

---One f32 that may change every step, read on the device.
---@param value? number|gs.Drawn
---@return gs.Parameter
function gs.step_scalar(value) end

---A Lua number inside forward and backward: branch on it with `if`. `values`: it may have no
---other; `also`: checks try these too.
---@param value number|{ [1]: number, values?: number[], also?: number[] }
---@return gs.Parameter
function gs.option(value) end

---The kernels are CUDA C of your own, checked against forward and backward.
---@param text string
---@return gs.Parameter
function gs.cuda(text) end

---|e|.
---@param e gs.Number
---@return gs.Value
function gs.abs(e) end

---e to the power.
---@param e gs.Number
---@return gs.Value
function gs.exp(e) end

---the natural logarithm.
---@param e gs.Number
---@return gs.Value
function gs.log(e) end

---log(1 + e), exact for small e.
---@param e gs.Number
---@return gs.Value
function gs.log1p(e) end

---exp(e) - 1, exact for small e.
---@param e gs.Number
---@return gs.Value
function gs.expm1(e) end

---the square root.
---@param e gs.Number
---@return gs.Value
function gs.sqrt(e) end

---1/sqrt(e).
---@param e gs.Number
---@return gs.Value
function gs.rsqrt(e) end

---the hyperbolic tangent.
---@param e gs.Number
---@return gs.Value
function gs.tanh(e) end

---the sine.
---@param e gs.Number
---@return gs.Value
function gs.sin(e) end

---the cosine.
---@param e gs.Number
---@return gs.Value
function gs.cos(e) end

---the error function.
---@param e gs.Number
---@return gs.Value
function gs.erf(e) end

---1/(1 + exp(-e)).
---@param e gs.Number
---@return gs.Value
function gs.sigmoid(e) end

---the largest whole number not above e, a real.
---@param e gs.Number
---@return gs.Value
function gs.floor(e) end

---e as an integer, toward minus infinity; no gradient.
---@param e gs.Number
---@return gs.Value
function gs.integer(e) end

---0 or 1 for a truth value; an integer as a real.
---@param e gs.Number
---@return gs.Value
function gs.real(e) end

---e, through which no gradient flows.
---@param e gs.Number
---@return gs.Value
function gs.stop(e) end

---e·sigmoid(e).
---@param e gs.Number
---@return gs.Value
function gs.silu(e) end

---e·Φ(e), exact.
---@param e gs.Number
---@return gs.Value
function gs.gelu(e) end

---GELU by its tanh approximation.
---@param e gs.Number
---@return gs.Value
function gs.gelu_tanh(e) end

---log(1 + exp(e)), stable.
---@param e gs.Number
---@return gs.Value
function gs.softplus(e) end

---log(sigmoid(e)), stable.
---@param e gs.Number
---@return gs.Value
function gs.log_sigmoid(e) end

---max(e, 0).
---@param e gs.Number
---@return gs.Value
function gs.relu(e) end

----1, 0 or 1; no gradient.
---@param e gs.Number
---@return gs.Value
function gs.sign(e) end

---a < b.
---@param a gs.Number
---@param b gs.Number
---@return gs.Truth
function gs.lt(a, b) end

---a <= b.
---@param a gs.Number
---@param b gs.Number
---@return gs.Truth
function gs.le(a, b) end

---a > b.
---@param a gs.Number
---@param b gs.Number
---@return gs.Truth
function gs.gt(a, b) end

---a >= b.
---@param a gs.Number
---@param b gs.Number
---@return gs.Truth
function gs.ge(a, b) end

---a == b.
---@param a gs.Number
---@param b gs.Number
---@return gs.Truth
function gs.eq(a, b) end

---a ~= b.
---@param a gs.Number
---@param b gs.Number
---@return gs.Truth
function gs.ne(a, b) end

---both.
---@param a gs.Number
---@param b gs.Number
---@return gs.Truth
function gs.and_(a, b) end

---either.
---@param a gs.Number
---@param b gs.Number
---@return gs.Truth
function gs.or_(a, b) end

---of integers, toward minus infinity; b > 0.
---@param a gs.Number
---@param b gs.Number
---@return gs.Value
function gs.quotient(a, b) end

---of integers, from 0 to b - 1.
---@param a gs.Number
---@param b gs.Number
---@return gs.Value
function gs.remainder(a, b) end

---Not c.
---@param c gs.Truth
---@return gs.Truth
function gs.not_(c) end

---a where c holds, else b.
---@param c gs.Truth
---@param a gs.Number
---@param b gs.Number
---@return gs.Value
function gs.where(c, a, b) end

---e between lo and hi; no gradient outside.
---@param e gs.Number
---@param lo gs.Number
---@param hi gs.Number
---@return gs.Value
function gs.clamp(e, lo, hi) end

---The smaller of two values, or the smallest along dims: `gs.min(e, "H")`.
---@param e gs.Number
---@param other gs.Number|gs.Dims
---@return gs.Value
function gs.min(e, other) end

---The larger of two values, or the largest along dims: `gs.max(e, "H")`.
---@param e gs.Number
---@param other gs.Number|gs.Dims
---@return gs.Value
function gs.max(e, other) end

---The sum over dims, which it removes.
---@param e gs.Number
---@param dims gs.Dims
---@return gs.Value
function gs.sum(e, dims) end

---The mean over dims.
---@param e gs.Number
---@param dims gs.Dims
---@return gs.Value
function gs.mean(e, dims) end

---log of the sum of exp over dims, stable.
---@param e gs.Number
---@param dims gs.Dims
---@return gs.Value
function gs.logsumexp(e, dims) end

---Mean and biased variance over dims, in two passes over the row.
---@param e gs.Number
---@param dims gs.Dims
---@return gs.Value mean, gs.Value var
function gs.moments(e, dims) end

---exp(e) / sum(exp(e)) along a dim, stable.
---@param e gs.Number
---@param dim gs.Dim
---@return gs.Value
function gs.softmax(e, dim) end

---log of the softmax along a dim.
---@param e gs.Number
---@param dim gs.Dim
---@return gs.Value
function gs.log_softmax(e, dim) end

---The index of the largest along a dim, the lowest of equal ones.
---@param e gs.Number
---@param dim gs.Dim
---@return gs.Value
function gs.argmax(e, dim) end

---The index of the smallest along a dim, the lowest of equal ones.
---@param e gs.Number
---@param dim gs.Dim
---@return gs.Value
function gs.argmin(e, dim) end

---The K largest along a dim, descending, and their indices: `gs.topk(e, "E", "K=8")`; of equal
---ones the lowest index first.
---@param e gs.Number
---@param dim gs.Dim
---@param spec string
---@return gs.Value values, gs.Value indices
function gs.topk(e, dim, spec) end

---A reduction by your own step and merge over inner dims: `{ init = { best = -math.huge }, step =
---function(s, e) ... end, merge = function(a, b) ... end }`.
---@param elements table<string, gs.Number>
---@param dims gs.Dims
---@param spec { init: table<string, number>, step: function, merge: function }
---@return table<string, gs.Value>
function gs.reduce(elements, dims, spec) end

---The current index along a dim, an integer.
---@param dim gs.Dim
---@return gs.Value
function gs.index(dim) end

---The size of a dim, an integer.
---@param dim gs.Dim
---@return gs.Value
function gs.size(dim) end

---e rounded to a storage type: where the reference rounds. `{ rand = r }`: stochastically.
---@param e gs.Number
---@param type gs.Type
---@param how? { rand: gs.Value }
---@return gs.Value
function gs.round(e, type, how) end

---dim -> (slow, fast): `gs.split(x, "D", "two=2", "h")`. Of a dim that may leave a rest: `{ tail =
---"mask" }`, past the end it reads 0.
---@param e gs.Value
---@param dim gs.Dim
---@param slow string
---@param fast string
---@param how? { tail: "mask" }
---@return gs.Value
function gs.split(e, dim, slow, fast, how) end

---(slow, fast) -> dim: the inverse of gs.split.
---@param e gs.Value
---@param slow gs.Dim
---@param fast gs.Dim
---@param dim string
---@return gs.Value
function gs.merge(e, slow, fast, dim) end

---e at a fixed index from 0 along a dim, which is removed.
---@param e gs.Value
---@param dim gs.Dim
---@param index integer
---@return gs.Value
function gs.pick(e, dim, index) end

---A part of a dim, from an index on: `gs.slice(x, "D", "r=32", 0)`.
---@param e gs.Value
---@param dim gs.Dim
---@param part string
---@param from? integer
---@return gs.Value
function gs.slice(e, dim, part, from) end

---e along a dim of another name and the same size.
---@param e gs.Value
---@param dim gs.Dim
---@param to gs.Dim
---@return gs.Value
function gs.rename(e, dim, to) end

---Values along a new dim: `gs.join({ a, b }, "two")`.
---@param values gs.Number[]
---@param dim string
---@return gs.Value
function gs.join(values, dim) end

---The halves of a dim: i and i + D/2.
---@param e gs.Value
---@param dim gs.Dim
---@param half? string
---@return gs.Value, gs.Value
function gs.halves(e, dim, half) end

---The inverse of gs.halves.
---@param a gs.Number
---@param b gs.Number
---@param dim string
---@param half? gs.Dim
---@return gs.Value
function gs.from_halves(a, b, dim, half) end

---Neighbours of a dim: 2i and 2i + 1.
---@param e gs.Value
---@param dim gs.Dim
---@param half? string
---@return gs.Value, gs.Value
function gs.pairs(e, dim, half) end

---The inverse of gs.pairs.
---@param a gs.Number
---@param b gs.Number
---@param dim string
---@param half? gs.Dim
---@return gs.Value
function gs.from_pairs(a, b, dim, half) end

---e at an integer index along a dim; 0, and no read, where ok is false.
---@param e gs.Value
---@param dim gs.Dim
---@param index gs.Number
---@param ok? gs.Truth
---@return gs.Value
function gs.at(e, dim, index, ok) end

---The sums over dim of e by an integer key, along `to`, in a fixed order.
---@param e gs.Value
---@param key gs.Value
---@param dim gs.Dim
---@param to gs.Dim
---@return gs.Value
function gs.sum_by(e, key, dim, to) end

---Constants for lookups: `gs.table { -1, 0, 1 }`.
---@param numbers number[]
---@return gs.Table
function gs.table(numbers) end

---How many of the ascending numbers of a table are below e.
---@param e gs.Number
---@param cuts gs.Table
---@return gs.Value
function gs.bucket(e, cuts) end

---Codes 0 to 15 along dim, two to a byte along half.
---@param codes gs.Value
---@param dim gs.Dim
---@param half string
---@param order gs.Order
---@return gs.Value
function gs.pack(codes, dim, half, order) end

---The inverse of gs.pack.
---@param bytes gs.Value
---@param half gs.Dim
---@param dim string
---@param order gs.Order
---@return gs.Value
function gs.unpack(bytes, half, dim, order) end

---Random reals in [0, 1), the same for every schedule: by seed, site and the index over dims.
---@param seed gs.Number
---@param site string
---@param dims gs.Dim[]
---@param how? { offset: gs.Number }
---@return gs.Value
function gs.rand(seed, site, dims, how) end

return gs
