"""What bitsandbytes' CUDA kernels compute, in numpy, bit for bit where it is defined (its
fast divisions are taken as divisions, its fused operations as separate ones). Code tables are its
own. Its CPU backend searches 8-bit codes approximately, so that it can only be compared with."""
import bitsandbytes.functional as F
import numpy as np

SIGNED, UNSIGNED = (F.create_dynamic_map(signed=s).numpy() for s in (True, False))
NF4, FP4 = (F.get_4bit_type(t, "cpu").numpy() for t in ("nf4", "fp4"))
F32 = np.float32


def search(code, x):
    """The nearest of 256 codes; a tie goes to the even one."""
    cuts = (code[:-1] + code[1:]) * F32(0.5)
    low, high = np.searchsorted(cuts, x, side="left"), np.searchsorted(cuts, x, side="right")
    return np.where(low % 2 == 0, low, high).astype(np.uint8)


def blocks(x, block):
    x = np.asarray(x, F32).reshape(-1)
    n = -(-x.size // block)
    return np.concatenate([x, np.zeros(n * block - x.size, F32)]).reshape(n, block)


def scaled(x, block):
    b = blocks(x, block)
    absmax = np.abs(b).max(1)
    inverse = F32(1) / np.maximum(absmax, F32(1e-38))
    return b * inverse[:, None], absmax


def quantize_8bit(x, block, code=SIGNED):
    s, absmax = scaled(x, block)
    return search(code, s).reshape(-1)[:np.size(x)], absmax


def nf4_codes(s):
    return np.searchsorted((NF4[:-1] + NF4[1:]) / F32(2), s, side="left")


def fp4_codes(s):
    """By size, then sign: dQuantizeFP4."""
    cuts = np.array([0.00260417, 0.0859375, 0.20833333, 0.29166667, 0.4166667, 0.583333, 0.8333333],
                    F32)
    order = np.array([0, 1, 6, 7, 4, 5, 2, 3])
    return order[np.searchsorted(cuts, np.abs(s), side="left")] + 8 * (s < 0)


def quantize_4bit(x, block, kind):
    s, absmax = scaled(x, block)
    q = (nf4_codes if kind == "nf4" else fp4_codes)(s).reshape(-1)[:np.size(x) + np.size(x) % 2]
    return (q[::2] << 4 | q[1::2]).astype(np.uint8), absmax


def adam_8bit(p, g, state1, state2, absmax1, absmax2, lr, bc1, bc2, eps, decay, coef, beta1, beta2,
              round_p, real=F32):
    """kOptimizerStatic8bit2StateBlockwise for Adam. decay, lr: one number for each element.
    real: the type of the arithmetic."""
    one = real(1)
    b1, b2 = real(F32(beta1)), real(F32(beta2))
    n = p.size
    each = lambda a: np.repeat(real(a), 256)[:n]
    g_ok = np.isfinite(g)
    gv = np.where(g_ok, real(g) * real(coef), 0)
    m = real(SIGNED)[state1] * each(absmax1) * b1 + real(F32(1) - F32(beta1)) * gv
    v = real(UNSIGNED)[state2] * each(absmax2) * b2 + real(F32(1) - F32(beta2)) * gv * gv
    m, v = np.where(g_ok, m, real(0)), np.where(g_ok, v, real(0))
    c2 = np.sqrt(real(bc2))
    step = -real(lr) * c2 / real(bc1)
    new = round_p(real(p) + step * (m / (np.sqrt(v) + c2 * real(eps))))
    new = round_p(new * (one - real(lr) * real(decay)))
    new = np.where(g_ok, new, real(p))

    def code(s, table):
        pad = np.concatenate([s, np.zeros(-n % 256, s.dtype)]).reshape(-1, 256)
        absmax = np.abs(pad).max(1)
        q = search(table, F32(pad / np.where(absmax > 0, absmax, one)[:, None]))
        return q.reshape(-1)[:n], absmax
    q1, a1 = code(m, SIGNED)
    q2, a2 = code(v, UNSIGNED)
    q1 = np.where((m < 0) & (q1 == 127), 126, q1).astype(np.uint8)
    return new, q1, q2, a1, a2
