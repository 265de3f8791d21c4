"""Break the core on purpose, one line at a time, and see whether the contracts notice: ``python tests/mutations.py``.

Each mutation is applied to a copy of the source in a temporary folder, and the named files of tests run against
that copy until the first failure. A mutation that no test notices has survived: a test is missing, or the line
is not needed. Words after the command pick mutations by names or files; -j runs several at once.
"""
# ruff: noqa: E501 (a table reads better with one row to a line)

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Mutation:
    name: str
    file: str  # below src/regard
    old: str  # stands in the file as often as ``times`` says
    new: str
    tests: str  # of tests/contracts, or of the folder that stands before a slash, in the order in which they run
    times: int = 1


ATTENTION, MASK, CACHE, TAP = "nn/attention.py", "nn/mask.py", "nn/cache.py", "nn/tap.py"
POSITIONS, RESIDUAL, CONFIG = "nn/positions.py", "nn/residual.py", "nn/config.py"
SPARSE, LINFORMER, SYNTHESIZER = (f"nn/kernels/{name}.py" for name in ("sparse", "linformer", "synthesizer"))
KERNELS, DECODING = "definitions kernels tiles", "cache attention decoding"

MUTATIONS = [
    # the kernel and its scale
    Mutation("scale of the width", ATTENTION, "q.shape[-1] ** -0.5", "q.shape[-1] ** -1.0", KERNELS),
    Mutation("scale of the definition", ATTENTION, "mT * self.factor(q), bias", "mT * self.factor(q) * 2, bias", KERNELS),
    Mutation("scale of the fused way", ATTENTION, "causal, scale=scale,", "causal, scale=None,", KERNELS),
    Mutation("given scale ignored", ATTENTION, "self.scale = scale ", "self.scale = None ", KERNELS),
    Mutation("softmax over queries", MASK, "-torch.inf).softmax(-1,", "-torch.inf).softmax(-2,", KERNELS),
    Mutation("softmax over queries, unmasked", MASK, "scores.softmax(-1,", "scores.softmax(-2,", KERNELS),
    Mutation("empty rows are NaN", MASK, "return weights.masked_fill(~allowed, 0.0)", "return weights", "mask kernels"),
    Mutation("dropout on the values", ATTENTION, "self.dropout(self.weights(q, k, mask, bias)) @ repeat_heads(v, q.shape[-3])",
             "self.weights(q, k, mask, bias) @ self.dropout(repeat_heads(v, q.shape[-3]))", "tiles"),
    Mutation("dropout on the output", ATTENTION, "self.dropout(self.weights(q, k, mask, bias)) @ repeat_heads(v, q.shape[-3])",
             "self.dropout(self.weights(q, k, mask, bias) @ repeat_heads(v, q.shape[-3]))", "tiles"),
    Mutation("dropout in evaluation", ATTENTION, "self.dropout.p if self.training else 0.0", "self.dropout.p", "tiles mixers"),
    Mutation("no dropout in the fused way", ATTENTION, "added, dropout, causal", "added, 0.0, causal", "tiles"),
    Mutation("groups interleaved", ATTENTION, "x.repeat_interleave(heads // x.shape[-3], -3)",
             "x.repeat(*[1] * (x.ndim - 3), heads // x.shape[-3], 1, 1)", KERNELS),
    Mutation("values cut too short", ATTENTION, "[..., :width]", "[..., :1]", KERNELS),
    # masks
    Mutation("mask turned around", MASK, "device=device) <= self.places", "device=device) >= self.places", "mask kernels"),
    Mutation("look at the next token", MASK, "device=device) <= self.places", "device=device) <= 1 + self.places", "mask kernels"),
    Mutation("own token not seen", MASK, "device=device) <= self.places", "device=device) < self.places", "mask kernels"),
    Mutation("causal from the top left", MASK, "torch.arange(n, device=device) + first", "torch.arange(n, device=device)", "mask kernels"),
    Mutation("start forgotten in the fused way", ATTENTION, "isinstance(mask.start, int) and mask.start == 0", "isinstance(mask.start, int)", "kernels attention attention_taps"),
    Mutation("causal mask left out too early", MASK, "self.start + 1 >= columns", "self.start + 2 >= columns", "mask kernels"),
    Mutation("padding turned around", MASK, "self.keys[..., None, None, :]", "~self.keys[..., None, None, :]", "mask kernels"),
    Mutation("padding forgotten beside causal", ATTENTION, "square and mask.keys is None and", "square and", "kernels"),
    Mutation("pairs forgotten beside causal", ATTENTION, "mask.keys is None and mask.pairs is None", "mask.keys is None", "kernels"),
    Mutation("pairs forgotten", MASK, "        if self.pairs is not None:\n            parts", "        if False:\n            parts", "mask kernels"),
    Mutation("pairs not refused", MASK, "        if self.pairs is not None:\n            raise", "        if False:\n            raise", "mask seams"),
    Mutation("parts of a mask joined by or", MASK, "allowed = allowed & part", "allowed = allowed | part", "mask kernels"),
    # biases
    Mutation("bias dropped", MASK, "    if bias is None:\n        return scores", "    if True:\n        return scores", "kernels"),
    Mutation("bias dropped in the fused way", ATTENTION, "        if bias is not None:\n            numbers", "        if False:\n            numbers", "kernels"),
    Mutation("bias drops the mask", ATTENTION, "numbers if added is None else numbers.masked_fill(~added, -torch.inf)", "numbers", "kernels"),
    Mutation("bias dropped while looking", ATTENTION, "tap(kernel.weights(q, k, mask, bias))", "tap(kernel.weights(q, k, mask))", "attention attention_taps seams_composed looking listening"),
    Mutation("mask dropped while looking", ATTENTION, "tap(kernel.weights(q, k, mask, bias))", "tap(kernel.weights(q, k, bias=bias))", "attention attention_taps looking listening"),
    Mutation("block keeps the bias", "nn/block.py", "mask=mask, bias=bias, cache=cache", "mask=mask, cache=cache", "seams_composed"),
    Mutation("bias of rows with their own start", POSITIONS, "numbers.squeeze(-4) if bucket.ndim > 2 else numbers", "numbers", "mask kernels"),
    Mutation("slopes of ALiBi", POSITIONS, "2 ** (-8 * (i + 1) / whole)", "2 ** (-8 * i / whole)", "positions"),
    Mutation("buckets of earlier and later keys swapped", POSITIONS, "later = (offset > 0)", "later = (offset < 0)", "positions"),
    Mutation("window's rows and columns swapped", POSITIONS, "(rows * (2 * width - 1) + columns)", "(columns * (2 * height - 1) + rows)", "positions seams_composed"),
    # tiles
    Mutation("rows of a tile shifted", MASK, "Mask(self.causal, self.start + rows.start,", "Mask(self.causal, self.start,", "mask tiles"),
    Mutation("rows of pairs shifted", MASK, "cut(self.pairs, rows, slice", "cut(self.pairs, slice(0, rows.stop - rows.start), slice", "mask tiles"),
    Mutation("rows of a bias shifted", MASK, "TensorBias(cut(self.value, rows,", "TensorBias(cut(self.value, slice(0, rows.stop - rows.start),", "mask tiles"),
    Mutation("distances count padding", MASK, "self.keys is None else count(self.keys)", "True else count(self.keys)", "attention seams_composed"),
    Mutation("rows of ALiBi shifted", POSITIONS, "ALiBi(self.heads, self.mask.tile(rows, columns))", "ALiBi(self.heads, self.mask.tile(slice(0, rows.stop), columns))", "mask tiles"),
    Mutation("rows of buckets shifted", POSITIONS, "BucketBias(self.table, self.mask.tile(rows, columns))", "BucketBias(self.table, self.mask.tile(slice(0, rows.stop), columns))", "mask tiles"),
    Mutation("reach too short", MASK, "self.start + rows.stop)", "self.start + rows.stop - 1)", "mask tiles"),
    Mutation("reach without start", MASK, "self.start + rows.stop)", "rows.stop)", "mask tiles"),
    Mutation("reach too long", MASK, "self.start + rows.stop)", "columns)", "mask tiles"),
    Mutation("last rows missing", ATTENTION, "for top in range(0, rows, height)]", "for top in range(0, rows - rows % height, height)]", "tiles"),
    Mutation("tiles in the wrong order", "nn/recomputation.py", "some(y, part.rows).copy_(rows)", "some(y, parts[-1 - parts.index(part)].rows).copy_(rows)", "tiles"),
    Mutation("leading axes not folded", ATTENTION, "if len(lead) != 1:", "if len(lead) == 0:", "tiles"),
    Mutation("values of another width not padded", ATTENTION, "q, k, v = (x if x.shape[-1] == wide", "q, k, v = (x if True", "tiles"),
    Mutation("fused kernel without its causal mask", ATTENTION, "causal = plain_causal(mask, q, k) and bias is None", "causal = False", "tiles"),
    Mutation("tiles are kept for the gradient", "nn/recomputation.py", "    if not torch.is_grad_enabled():\n        return together(parts, inputs)", "    if True:\n        return torch.cat([part.make(*part.cut(inputs)) for part in parts], -2)", "tiles"),
    Mutation("tiles forget how large a score is", ATTENTION, "rows * columns * footprint <= DENSE", "rows * columns <= DENSE", "tiles"),
    Mutation("no tiles", ATTENTION, "rows * columns * footprint <= DENSE", "True", "tiles"),
    Mutation("mask of three axes", ATTENTION, "if added is not None and added.ndim in (1, 3):", "if False:", "tiles"),
    Mutation("random numbers not replayed", "nn/recomputation.py", "use_reentrant=False, context_fn", "use_reentrant=False, preserve_rng_state=False, context_fn", "tiles looking listening"),
    Mutation("compiled with contexts", "nn/recomputation.py", "if torch.compiler.is_compiling():", "if False:", "mixers"),
    # a bias that learns
    Mutation("a bias that learns is left out", ATTENTION, ".add_(bias)", "", "attention"),
    Mutation("what is masked is seen while a bias learns", ATTENTION, "scores.masked_fill_(~allowed, -torch.inf)", "pass", "attention"),
    Mutation("no look for blind rows while a bias learns", ATTENTION, " and (allowed is None or bool(allowed.any(-1).all()))", "", "attention"),
    # multi-head attention
    Mutation("keys and values swapped", ATTENTION, "return split_heads(k, self.groups), split_heads(v, self.groups)\n\n    def attend", "return split_heads(v, self.groups), split_heads(k, self.groups)\n\n    def attend", "attention attention_taps"),
    Mutation("keys and values swapped when fused", ATTENTION, "q, k, v = parts[0], parts[0 if self.k is None else 1], parts[-1]", "q, v, k = parts[0], parts[0 if self.k is None else 1], parts[-1]", "attention attention_taps"),
    Mutation("fused parts are copies", ATTENTION, "part.weight = nn.Parameter(weight, requires_grad=False)", "pass", "attention attention_taps"),
    Mutation("fused while training", ATTENTION, "self.fused is None or self.training or", "self.fused is None or", "attention attention_taps"),
    Mutation("shared values have their own map", ATTENTION, 'self.v = None if shared == "kv" else', "self.v =", "attention attention_taps"),
    Mutation("biases lost when fused", ATTENTION, "if x.bias is None else x.bias.data for x in parts", "for x in parts", "attention attention_taps"),
    Mutation("fused although inputs differ", ATTENTION, "self.fused is None or self.training or queries is not keys or keys is not values", "self.fused is None or self.training", "attention attention_taps"),
    Mutation("heads split across features", ATTENTION, "x.unflatten(-1, (heads, x.shape[-1] // heads)).transpose(-3, -2)", "x.unflatten(-1, (x.shape[-1] // heads, heads)).movedim(-1, -3)", "attention attention_taps"),
    Mutation("padding not silenced", ATTENTION, "return x if real is None else x", "return x if True else x", "attention attention_taps"),
    Mutation("silence at the wrong place", ATTENTION, "zero_padding(x, mask.real(x.shape[-2], x.device))", "zero_padding(x, Mask(keys=mask.keys).real(x.shape[-2], x.device))", "attention attention_taps"),
    Mutation("silence of a context from start on", ATTENTION, "zero_padding(context, mask.keys)", "zero_padding(context, mask.real(context.shape[-2], context.device))", "attention attention_taps"),
    Mutation("keys not turned", ATTENTION, "self.rotary(q, positions), self.rotary(k, positions)", "self.rotary(q, positions), k", "attention attention_taps"),
    Mutation("keys turned from zero", ATTENTION, "self.rotary(q, positions), self.rotary(k, positions)", "self.rotary(q, positions), self.rotary(k, positions - positions[..., :1])", "attention attention_taps"),
    Mutation("keys turned the other way", ATTENTION, "self.rotary(q, positions), self.rotary(k, positions)", "self.rotary(q, positions), self.rotary(k.flip(-1), positions).flip(-1)", "attention attention_taps"),
    Mutation("rotary over a context ignored", ATTENTION, "        if self.rotary is not None:\n            raise", "        if False:\n            raise", "attention attention_taps"),
    Mutation("sign of a rotation", POSITIONS, "torch.stack((a * cos - b * sin,", "torch.stack((a * cos + b * sin,", "positions"),
    Mutation("sign of a rotation in halves", POSITIONS, "b * cos + a * sin), -1)\n        else", "b * cos - a * sin), -1)\n        else", "positions"),
    Mutation("dropout forgotten while looking", ATTENTION, "kernel.dropout(tap(kernel.weights(q, k, mask, bias)))", "tap(kernel.weights(q, k, mask, bias))", "attention attention_taps"),
    Mutation("what passes is not replaced", ATTENTION, "return self.mixed(y)", "self.mixed(y)\n        return y", "attention attention_taps looking listening"),
    Mutation("values are not heard", ATTENTION, "self.keys(k), self.values(v)", "self.keys(k), v", "attention attention_taps"),
    # beams and contexts
    Mutation("beams folded across sentences", ATTENTION, "q.unflatten(0, (-1, beams)).transpose(1, 2)", "q.unflatten(0, (beams, -1)).transpose(0, 1).transpose(1, 2)", "attention attention_taps decoding"),
    Mutation("beams unfolded wrongly", ATTENTION, "y.unflatten(2, (beams, n)).transpose(1, 2)", "y.unflatten(2, (n, beams)).movedim(3, 1)", "attention attention_taps decoding"),
    Mutation("padding of beams in the wrong order", ATTENTION, "mask.keys.repeat_interleave(beams, 0)", "mask.keys.repeat(beams, 1)", "attention attention_taps"),
    Mutation("beams left over", ATTENTION, "if left or bool(beams) != bool(len(k)):", "if False:", "attention attention_taps"),
    Mutation("beams ignore a bias", ATTENTION, "if bias is not None or mask.pairs is not None or mask.causal:", "if mask.pairs is not None or mask.causal:", "attention attention_taps"),
    Mutation("context read at every step", ATTENTION, 'if "k" not in slot:', "if True:", "attention attention_taps decoding"),
    Mutation("keys of the past forgotten while looking", ATTENTION, 'return slot["k"], slot["v"]', "return k, v", "looking listening"),
    Mutation("sums stop while looking", ATTENTION, "        self.kernel.step(slot, q, k, v, mask, bias)\n        if", "        if", "seams"),
    Mutation("missed keys not noticed", ATTENTION, "if keys.shape[-2] != total:", "if False:", "seams"),
    # the cache
    Mutation("slots not reordered", CACHE, "x.index_select(0, rows) for name", "x for name", DECODING),
    Mutation("another context taken for the first", CACHE, "elif self.origin() is not context:", "elif False:", "cache"),
    Mutation("sentences left, their context refused", CACHE, "        self.origin = None\n", "", "cache"),
    Mutation("padding not reordered", CACHE, "self.keys = self.keys.index_select(0, rows)", "pass", DECODING),
    Mutation("contexts reordered with the beams", CACHE, "        if sentences is not None:\n            for slot in self.contexts.values():\n                slot.reorder(sentences)", "        for slot in self.contexts.values():\n            slot.reorder(rows)", DECODING),
    Mutation("contexts never reordered", CACHE, "if sentences is not None:", "if False:", DECODING),
    Mutation("positions off by one", MASK, "(keys.cumsum(-1) - 1)", "keys.cumsum(-1)", DECODING),
    Mutation("positions count padding", MASK, "pick(count(self.keys), places)", "places", DECODING),
    Mutation("start forgotten beside padding", CACHE, "Mask(causal=True, start=start, keys=self.keys)", "Mask(causal=True, keys=self.keys)", DECODING),
    Mutation("past without padding lost", CACHE, "keys.new_ones(len(keys), start)", "keys.new_zeros(len(keys), start)", DECODING),
    Mutation("written at the end of the room", CACHE, "buffer[..., length:total, :] = new", "buffer[..., -new.shape[-2] :, :] = new", DECODING),
    Mutation("past lost when growing", CACHE, "grown[..., :length, :] = buffer[..., :length, :]", "pass", DECODING),
    Mutation("copied at every step", CACHE, "max(total, self.capacity, 2 * length)", "total", DECODING),
    Mutation("room filled with NaN", CACHE, "new.new_zeros(*new.shape[:-2], room, new.shape[-1])", "new.new_full((*new.shape[:-2], room, new.shape[-1]), torch.nan)", DECODING),
    Mutation("written in place under a gradient", CACHE, "if torch.is_grad_enabled() and (", "if False and (", DECODING),
    Mutation("whole room returned", CACHE, "x[..., : self.lengths[name], :] if name in self.lengths else x", "x", DECODING),
    Mutation("one row written to all", CACHE, "if buffer is not None and buffer.shape[:-2] != new.shape[:-2]:", "if False:", "cache"),
    Mutation("all sites are one", CACHE, 'f"{self.site}/{site}"', "self.site", "cache"),
    # taps
    Mutation("threads hear each other", TAP, "_thread = threading.local()", '_thread = type("Shared", (), {})()', "looking listening"),
    Mutation("recorded twice", TAP, "for listener in listeners if not listener.records", "for listener in listeners", "looking listening"),
    Mutation("recorded twice by a checkpoint of PyTorch", TAP, "if listener.records and in_backward():", "if False:", "listening"),
    Mutation("replacements unknown to a checkpoint of PyTorch", TAP, "        torch.ones(0, requires_grad=True).exp()", "        pass", "listening"),
    Mutation("replacements in a reentrant checkpoint", TAP, "if frame.f_code in REENTRANT:", "if False:", "listening"),
    Mutation("another path the second time", TAP, "for tap, listeners in now.items()}", "for tap, listeners in now.items() if False}", "looking listening"),
    Mutation("the second time hears who listens now", "nn/recomputation.py", "stack.enter_context(self.listening)", "pass", "looking listening"),
    Mutation("replacements ignored", TAP, "x = fitting(replacement, x, listener.name)", "pass", "attention attention_taps looking listening"),
    Mutation("replacements of any shape", TAP, "if replacement.shape != x.shape:", "if False:", "looking"),
    Mutation("listeners stay after an error", TAP, "_thread.stack = (*entered()[:last], *entered()[last + 1 :])", "_thread.stack = entered() if error[0] else (*entered()[:last], *entered()[last + 1 :])", "looking listening"),
    Mutation("inner listeners replace outer ones", TAP, "(*new.get(taps[name], ()), listener)", "(listener,)", "looking listening"),
    Mutation("who left still hears", TAP, "forget(own.values())", "pass", "listening"),
    Mutation("records keep the graph", TAP, "x if grad else x.detach()", "x", "looking listening"),
    Mutation("records lose the graph", TAP, "x if grad else x.detach()", "x.detach()", "looking listening"),
    Mutation("only the last call is kept", TAP, "seen.setdefault(name, []).append(x if grad else x.detach())", "seen[name] = [x if grad else x.detach()]", "looking listening"),
    Mutation("compiled models are not heard", TAP, '"torch._dynamo" in sys.modules', "False", "looking listening"),
    Mutation("compiler's stance is not reset", TAP, "_stance.forced.__exit__(None, None, None)", "pass", "looking listening"),
    Mutation("compiler's stance is reset too early", TAP, "if not _stance.listeners and _stance.forced", "if _stance.forced", "looking listening"),
    Mutation("graphs without taps", TAP, "    if _stance.listeners:", "    if False:", "looking listening"),
    Mutation("first call instead of last", "look/maps.py", "calls[-1] for name", "calls[0] for name", "looking listening"),
    Mutation("axes of another size", "look/maps.py", "axis is not None and axis.size == size", "axis is not None", "looking listening"),
    Mutation("rows and columns swapped", "look/maps.py", "rows, columns = axes_of(name, table)", "columns, rows = axes_of(name, table)", "looking listening"),
    # analyses of what was looked at
    Mutation("mass of squares", "look/spectrum.py", "return singular / total", "return singular**2 / (singular**2).sum(-1, keepdim=True)", "look/spectrum"),
    Mutation("rank in bits", "look/spectrum.py", ".sum(-1).exp()", ".sum(-1).exp2()", "look/spectrum"),
    Mutation("moduli of singular values", "look/spectrum.py", "torch.linalg.eigvals(wide(weights)).abs()", "torch.linalg.svdvals(wide(weights))", "look/spectrum"),
    Mutation("smallest modulus first", "look/spectrum.py", "descending=True", "descending=False", "look/spectrum"),
    Mutation("distance of texts squared", "look/distance.py", ".square().sum(-1).sqrt()", ".square().sum(-1)", "look/distance"),
    Mutation("distance between two texts", "look/distance.py", "rows is columns or (rows.labels is not None and rows == columns)", "rows == columns", "look/distance"),
    Mutation("slope without the weight", "look/gradient.py", "return self.found.weights * self.slope", "return self.slope", "look/gradient"),
    Mutation("relevance of what spoke against", "look/gradient.py", "self.signed.clamp(min=0)", "self.signed.abs()", "look/gradient"),
    Mutation("slopes of other calls", "look/gradient.py", "iter(torch.autograd.grad(total, heard,", "iter(torch.autograd.grad(total, heard[::-1],", "look/gradient"),
    Mutation("frozen nets have no slopes", "look/gradient.py", "x if x.requires_grad else x.requires_grad_()", "x", "look/gradient"),
    Mutation("another head silent", "look/importance.py", "index_fill(-3, torch.tensor(head,", "index_fill(-3, torch.tensor(head - 1,", "look/importance"),
    Mutation("importance turned around", "look/importance.py", "    return before - after", "    return after - before", "look/importance"),
    Mutation("windows of other images", "look/importance.py", "unflatten(0, (rows, -1)).sum(1)", "unflatten(0, (-1, rows)).sum(0)", "look/importance"),
    Mutation("sizes after the mean", "look/importance.py", "slope.abs().mean(0)", "slope.mean(0).abs()", "look/importance"),
    Mutation("divergence turned around", "look/importance.py", "likely.exp() * (likely - then)", "then.exp() * (then - likely)", "look/importance"),
    Mutation("lens without the norm", "models/family.py", "stream if norm is None else norm(stream)", "stream", "look/lens"),
    Mutation("lens of T5 without its scale", "models/switch.py", "F.linear(t5.T5.spoken(net, net.decoder_norm(x)), *net.words())", "F.linear(net.decoder_norm(x), *net.words())", "look/lens"),
    Mutation("lens for what is derived", "zoo.py", "row.net is type(net)", "isinstance(net, row.net)", "look/lens"),
    Mutation("rows not shares again", "look/exclusion.py", "return rest / total.where(total > 0, 1)", "return rest", "look/exclusion"),
    Mutation("empty rows divided", "look/exclusion.py", "total.where(total > 0, 1)", "total", "look/exclusion"),
    Mutation("rows left out in place of columns", "look/exclusion.py", "axes_of(attention_name(tap), table)[1]", "axes_of(attention_name(tap), table)[0]", "look/exclusion"),
    Mutation("unruly weights not refused", "look/exclusion.py", "& (sums != 0)", "& (sums > 9)", "look/exclusion"),
    Mutation("one token replaced for all", "look/exclusion.py", "texts[torch.arange(len(some), device=ids.device), some] = other", "texts[:, some] = other", "look/exclusion"),
    Mutation("a layer alone has no names", TAP, 'fnmatchcase(name, pattern) or fnmatchcase(f".{name}", pattern)', "fnmatchcase(name, pattern)", "looking listening"),
    Mutation("labels of the first of several texts", "modalities/looking.py", "words is None or len(ids) != 1", "words is None", "looking listening"),
    # kernels
    Mutation("top-k keeps one more", "nn/kernels/topk.py", "order[..., : self.keep]", "order[..., : self.keep + 1]", KERNELS),
    Mutation("top-k ranks what is masked", "nn/kernels/topk.py", "scores if allowed is None else scores.masked_fill(~allowed, -torch.inf)", "scores", KERNELS),
    Mutation("top-k of equal keys", "nn/kernels/topk.py", "argsort(stable=True, dim=-1, descending=True)", "flip(-1).argsort(stable=True, dim=-1, descending=True).mul(-1).add(scores.shape[-1] - 1)", KERNELS),
    Mutation("talking heads speak of masked keys", "nn/kernels/talking.py", "weights if allowed is None else weights.masked_fill(~allowed, 0.0)", "weights", KERNELS),
    Mutation("talking heads exchange once", "nn/kernels/talking.py", "exchange(self.before, q @ repeat_heads(k, q.shape[-3]).mT * q.shape[-1] ** -0.5)", "q @ repeat_heads(k, q.shape[-3]).mT * q.shape[-1] ** -0.5", KERNELS),
    Mutation("local-p ignores causal", "nn/kernels/luong.py", "if mask.causal:", "if False:", "kernels"),
    Mutation("local-p sees further", "nn/kernels/luong.py", "off.detach().abs() <= self.window", "off.detach().abs() <= self.window + 1", KERNELS),
    Mutation("local-p fades less", "nn/kernels/luong.py", "torch.exp(-2 * ", "torch.exp(-0.5 * ", KERNELS),
    Mutation("local-p counts padding", "nn/kernels/luong.py", "real.cumsum(-1) - 1", "torch.arange(k.shape[-2]).to(real)", KERNELS),
    Mutation("local-p in half precision", "nn/kernels/luong.py", "torch.promote_types(k.dtype, torch.float32)", "k.dtype", "mixers"),
    Mutation("general, transposed", "nn/kernels/luong.py", "q @ self.matrix", "q @ self.matrix.mT", KERNELS, 2),
    Mutation("concat, halves swapped", "nn/kernels/luong.py", "q @ self.queries, repeat_heads(k, q.shape[-3]) @ self.keys", "q @ self.keys, repeat_heads(k, q.shape[-3]) @ self.queries", KERNELS),
    Mutation("additive subtracts", "nn/kernels/additive.py", "q.unsqueeze(-2) + repeat_heads", "q.unsqueeze(-2) - repeat_heads", KERNELS),
    Mutation("cosine without its limit", "nn/kernels/cosine.py", ".clamp(max=math.log(100.0))", "", KERNELS),
    Mutation("cosine of keys not normalised", "nn/kernels/cosine.py", "F.normalize(k, dim=-1), v, mask", "k, v, mask", KERNELS),
    Mutation("strided steps too far", SPARSE, "steps % self.stride == 0, steps)", "steps % (self.stride + 1) == 0, steps)", "sparse"),
    Mutation("columns of a grid start anew", SPARSE, "inner = Mask(mask.causal, line, keys)", "inner = Mask(mask.causal, 0, keys)", "sparse"),
    Mutation("what fills a grid is seen", SPARSE, "behind = mask.causal and mask.start + rows <= columns", "behind = True", "sparse", 2),
    Mutation("a merged head counts itself twice", SPARSE, "(others < own[:, None]) if mask.causal", "(others <= own[:, None]) if mask.causal", "sparse"),
    Mutation("a block's first words sum it up", SPARSE, "torch.arange(first, max(min(block, columns), first), device=device)", "torch.arange(kernel.summary, device=device)", "sparse"),
    Mutation("a summary in one's own block counts twice", SPARSE, "earlier(mask, ~twice, far)", "earlier(mask, torch.ones_like(twice), far)", "sparse"),
    Mutation("blocks start with the padding", SPARSE, "positions = positions if mask.keys is None else count(mask.keys)[..., near]", "pass", "sparse"),
    Mutation("all heads look near", SPARSE, "half = (q.shape[-3] + 1) // 2", "half = q.shape[-3]", "sparse"),
    Mutation("mended: who sees nothing divides by a tiny number", "nn/kernels/sums.py", "away.masked_fill(sums == 0, 1.0)", "away", "nn/efficient_mended"),
    Mutation("mended: dropout stays on with any attention", "zoo.py", "if picked and not can_drop", "if False and not can_drop", "nn/efficient_mended"),
    Mutation("mended: dropout goes off with any attention", "zoo.py", "if picked and not can_drop(changes[\"attention\"]) else", "if picked else", "nn/efficient_mended contracts/models"),
    Mutation("mended: a decoder attends as its encoder", "models/transformer.py", "config.attention if config.decoder_attention is None else config.decoder_attention", "config.attention", "nn/efficient_mended"),
    Mutation("mended: one block starts at its own first query", SPARSE, "Mask(mask.causal, place))\n", "Mask(mask.causal))\n", "sparse nn/efficient_mended"),
    Mutation("mended: a long stride is laid out in full", SPARSE, "stride = min(self.stride, max(columns, mask.start + rows))", "stride = self.stride", "nn/efficient_mended"),
    Mutation("mended: hashing is held against hashing", "comparison/nets.py", "\"rounds\": 1, \"buckets\": 1}", "\"rounds\": 1, \"buckets\": 16}", "nn/efficient_mended"),
    Mutation("mended: what is read again forgets", "decode/incremental.py", "torch.cat((own[name], x), 1) if name in own else x", "x", "nn/efficient_mended"),
    Mutation("Linformer sums up padding", LINFORMER, "front.masked_fill(~self.there()[..., None, :, None], 0.0)", "front", "linformer"),
    Mutation("Linformer leaves padding where it is", LINFORMER, "(~self.keys).to(torch.uint8).argsort(stable=True, dim=-1)", "torch.arange(self.n).expand(self.keys.shape)", "linformer"),
    Mutation("Linformer is causal without a word", LINFORMER, "        if mask.causal:", "        if False:", "kernels"),
    Mutation("values go by the projection of the keys", LINFORMER, "return keys, self.values or keys", "return keys, keys", "linformer"),
    Mutation("each layer has a projection of its own", LINFORMER, "if name in site.common:", "if False:", "linformer"),
    Mutation("empty windows are looked at", LINFORMER, "None if self.keys is None else projection.live(self.lengths(), self.n)", "None", "linformer"),
    Mutation("guesses without relu", SYNTHESIZER, "F.relu(q) @ self.weight", "q @ self.weight", "synthesizer"),
    Mutation("learned rows start anew in each step", SYNTHESIZER, "slice(mask.start, mask.start + n), slice(0, columns)", "slice(0, n), slice(0, columns)", "synthesizer"),
    Mutation("learned rows count padding", SYNTHESIZER, "known(mask.positions(n, q.device), length), known(count", "known(mask.places(n, q.device), length), known(count", "synthesizer"),
    Mutation("a mixture does not listen to its loudness", SYNTHESIZER, "[alpha * scores for", "[scores / len(said) for", "synthesizer"),
    Mutation("fixed scores are learned", SYNTHESIZER, 'learned=word == "random"', "learned=True", "synthesizer"),
    # linear attention
    Mutation("directions that lean", "nn/kernels/directions.py", "(q * r.diagonal().sign()).T", "q.T", "nn/performer"),
    Mutation("other directions in evaluation", "nn/kernels/directions.py", "if self.training and self.redraw", "if self.redraw", "nn/performer"),
    Mutation("a repeated call counts", "nn/kernels/directions.py", "if in_backward():", "if False:", "nn/performer"),
    Mutation("drawn from the common source", "nn/kernels/directions.py", "manual_seed((int(self.seed) + int(self.calls)) % 2**63)", "manual_seed(int(torch.randint(2**62, ())))", "nn/performer"),
    Mutation("drawn into the old place", "nn/kernels/directions.py", "self.matrix = draw_directions(count, width, self.layout, self.norms, source).to(self.matrix)",
             "self.matrix.copy_(draw_directions(count, width, self.layout, self.norms, source))", "nn/performer"),
    Mutation("features without the norm", "nn/kernels/performer.py", "powers - (half + level)", "powers - level", "nn/performer"),
    Mutation("nothing added to features", "nn/kernels/performer.py", "added: float = 2.0", "added: float = 0.0", "nn/performer"),
    Mutation("a key far out outshines all", "nn/kernels/performer.py", "noise.clamp(max=MOST)", "noise", "nn/performer"),
    Mutation("a chunk sees ahead", "nn/kernels/sums.py", ".triu(1)", ".triu(2)", "nn/performer"),
    Mutation("relative to a later peak", "nn/kernels/sums.py", "here = torch.maximum(highest, peaks[:, :-1])", "here = peaks[:, 1:].expand_as(highest)", "nn/performer"),
    Mutation("sums of nothing divided", "nn/kernels/sums.py", "sums.clamp(min=self.least)", "sums", "nn/performer kernels"),
    Mutation("sums in half precision", "nn/kernels/sums.py", "x.to(torch.promote_types(x.dtype, torch.float32))", "x", "nn/performer mixers"),
    Mutation("padding lets keys fade", "nn/kernels/rfa.py", "left.masked_fill(~real[..., None, :], 0.0)", "left", "nn/performer kernels"),
    Mutation("a gate lets in what it keeps", "nn/kernels/rfa.py", "F.logsigmoid(-opened) - products", "F.logsigmoid(opened) - products", "nn/performer"),
    # residuals
    Mutation("pre-norm after the sum", RESIDUAL, "x + self.branch(f(self.norm(x)))", "self.norm(x + self.branch(f(x)))", "mixers"),
    Mutation("post-norm on the branch", RESIDUAL, "self.norm(x + self.branch(f(x)))", "x + self.norm(self.branch(f(x)))", "mixers"),
    Mutation("res-post before the branch", RESIDUAL, "self.branch(self.norm(f(x)))", "self.branch(f(self.norm(x)))", "mixers"),
    Mutation("omega on the branch", RESIDUAL, "self.omega * self.skip(x) + y", "self.skip(x) + self.omega * y", "mixers admin"),
    Mutation("drop-path does not scale", RESIDUAL, "y * keep / (1 - self.drop_path)", "y * keep", "mixers"),
    Mutation("drop-path keeps what it should drop", RESIDUAL, "bernoulli_(1 - self.drop_path)", "bernoulli_(self.drop_path)", "mixers"),
    Mutation("drop-path drops the whole batch", RESIDUAL, "y.new_empty(len(y), ", "y.new_empty(1, ", "mixers"),
    Mutation("LayerScale ignored", RESIDUAL, "y if self.scale is None else self.scale * y", "y", "mixers"),
    Mutation("profile forgets the variance of x", RESIDUAL, "variance * float(x.var(unbiased=False)) + branch", "variance + branch", "admin"),
    Mutation("profile forgets to add up", RESIDUAL, "variance * float(x.var(unbiased=False)) + branch", "float(x.var(unbiased=False)) + branch", "admin"),
    Mutation("profile takes the next branch", RESIDUAL, "admin.omega.fill_(math.sqrt(variance))\n        variance = variance * float(x.var(unbiased=False)) + branch", "variance = variance * float(x.var(unbiased=False)) + branch\n        admin.omega.fill_(math.sqrt(variance))", "admin"),
    Mutation("profile leaves training mode", RESIDUAL, "listening.callback(stack.train, training)", "pass", "admin"),
    # positions
    Mutation("sine and cosine swapped", POSITIONS, "torch.stack((sin, cos), -1)", "torch.stack((cos, sin), -1)", "positions"),
    Mutation("base of the waves", POSITIONS, "(-2 * math.log(base) / dim)", "(-math.log(base) / dim)", "positions"),
    Mutation("learned positions beyond the last", POSITIONS, "if last >= len(self.weight):", "if False:", "positions models"),
    Mutation("interpolated grid transposed", POSITIONS, "unflatten(1, old)", "unflatten(1, old[::-1]).transpose(1, 2)", "positions admin"),
    Mutation("interpolated class token", POSITIONS, "torch.cat((table[:, :special], grid", "torch.cat((0 * table[:, :special], grid", "positions admin"),
    Mutation("interpolated by corners", POSITIONS, "size=new, mode=\"bicubic\", align_corners=False", "size=new, mode=\"bicubic\", align_corners=True", "positions admin"),
    # configs and tables
    Mutation("true is a whole number", CONFIG, "isinstance(value, int) and not isinstance(value, bool) and abs", "isinstance(value, int) and abs", "config"),
    Mutation("NaN is a number", CONFIG, "isinstance(value, float) and math.isfinite(value)", "isinstance(value, float)", "config"),
    Mutation("any size is sane", CONFIG, "abs(value) <= LARGEST", "True", "config"),
    Mutation("unknown keys pass", CONFIG, 'problems.append(f"unknown key', 'str(f"unknown key', "config models"),
    Mutation("lists stay lists", CONFIG, "tuple(value) if isinstance(value, list) else value", "value", "config models"),
    Mutation("a size of nothing", CONFIG, "(size := getattr(config, name)) is not None and not min(", "(size := getattr(config, name)) and not min(", "config models"),
    Mutation("eps below zero", CONFIG, "is not None and not value > 0", "is not None and False", "config models"),
    Mutation("only the first kind of problem", CONFIG, 'return str(error).split("\\n")', "return []", "config models"),
    Mutation("attentions do not take turns", "nn/mechanisms.py", "turns[i % len(turns)]", "turns[min(i, len(turns) - 1)]", "config"),
    Mutation("nothing is a default", "zoo.py", "parse(FAMILIES[family].config, data)", "parse(FAMILIES[family].config, {k: v for k, v in data.items() if v is not None})", "models", 2),
    # models
    Mutation("keys of other tokens", MASK, "keys.shape != tokens.shape[:2]", "False", "models"),
    Mutation("source padding forgotten", "models/transformer.py", "context_mask=beyond", "context_mask=Mask()", "models decoding"),
    Mutation("encoder's padding forgotten", "models/transformer.py", "x = block(x, mask=mask)\n        return x if self.encoder_norm", "x = block(x)\n        return x if self.encoder_norm", "models decoding"),
    Mutation("decoder sees ahead", "models/transformer.py", "mask=mask, context_mask", "mask=Mask(keys=mask.keys), context_mask", "decoding"),
    Mutation("decoder's padding forgotten", "models/gpt.py", "mask=mask, cache", "mask=__import__('dataclasses').replace(mask, keys=None), cache", "models decoding"),
    Mutation("no final norm", "models/gpt.py", "return x if self.norm is None else self.norm(x)", "return x", "admin models"),
    Mutation("no final norm of the decoder", "models/transformer.py", "return x if self.decoder_norm is None else self.decoder_norm(x)", "return x", "admin"),
    Mutation("embeddings not scaled", "nn/embed.py", " * math.sqrt(embedding.embedding_dim)", "", "admin models"),
    Mutation("first place instead of first token", "nn/pool.py", "keys.int().argmax(1)]", "0]", "models"),
    Mutation("padding in the mean", "nn/pool.py", "x.masked_fill(~keys[..., None], 0.0).sum(1)", "x.sum(1)", "models"),
    Mutation("class token at the end", "models/vit.py", "torch.cat((self.class_token.expand(len(x), -1, -1), x), dim=1)", "torch.cat((x, self.class_token.expand(len(x), -1, -1)), dim=1)", "admin"),
    Mutation("no linear map may lack a bias", "models/transformer.py", "if module.bias is not None:", "if True:", "seams"),
    Mutation("positions without padding", "models/gpt.py", "self.positions(mask.positions(ids.shape[1], ids.device))", "self.positions(mask.places(ids.shape[1], ids.device))", "models decoding"),
    Mutation("segments ignored", "models/bert.py", "torch.zeros_like(ids) if segments is None else segments", "torch.zeros_like(ids)", "models"),
    Mutation("same drop-path everywhere", "nn/patchwork.py", "last * (before + i) / max(before + depth - 1, 1)", "last", "admin"),
    Mutation("a prepared twin is not frozen", "nn/inference.py", "copy.deepcopy(net).eval().requires_grad_(False)", "copy.deepcopy(net).eval()", "attention attention_taps models"),
    Mutation("a prepared twin is the model", "nn/inference.py", "copy.deepcopy(net).eval()", "net.eval()", "attention attention_taps models"),
    # the training engine
    Mutation("a step forgets its number", "train/update.py", "[seed, step, rank, *use]", "[seed, rank, *use]", "train/engine"),
    Mutation("processes draw alike", "train/update.py", "[seed, step, rank, *use]", "[seed, step, *use]", "train/engine train/distribution"),
    Mutation("a term divided by its piece", "train/engine.py", "term.sum * (term.weight * piece.weight / whole)", "term.sum * (term.weight / whole)", "train/engine train/distribution"),
    Mutation("a term without its weight", "train/engine.py", "term.sum * (term.weight * piece.weight / whole)", "term.sum * (piece.weight / whole)", "train/engine train/tasks train/feeding"),
    Mutation("a loss reaches all parts", "train/engine.py", "if name != part for x in other.parameters()", "if False for x in other.parameters()", "train/engine"),
    Mutation("update=False updates", "train/engine.py", "if loss.update:", "if True:", "train/engine"),
    Mutation("nothing is clipped", "train/engine.py", "if self.settings.clip is not None:", "if False:", "train/engine train/optimizers"),
    Mutation("the schedule is a step late", "train/engine.py", "self.schedules[part].factor(step, self.settings.steps)", "self.schedules[part].factor(step + 1, self.settings.steps)", "train/engine"),
    Mutation("an infinite gradient passes", "train/engine.py", "if not (math.isfinite(length) and all(map(math.isfinite, update.sums.values()))):", "if not all(map(math.isfinite, update.sums.values())):", "train/engine train/nonfinite"),
    Mutation("an infinite loss passes", "train/engine.py", "if not (math.isfinite(length) and all(map(math.isfinite, update.sums.values()))):", "if False:", "train/engine train/nonfinite"),
    Mutation("infinite weights are saved", "train/engine.py", "        self.check_weights()\n", "", "train/memory"),
    Mutation("the best is the largest", "train/engine.py", "found < before", "found >= before", "train/engine"),
    Mutation("of two as good, the first is the best", "train/engine.py", "found < before", "found[0] < before[0]", "train/memory"),
    Mutation("the loss beside the best is forgotten", "train/engine.py", "state.best, state.best_loss = value, loss if math.isfinite(loss) else None", "state.best = value", "train/memory"),
    Mutation("patience never ends", "train/engine.py", "state.stale = 0 if best else state.stale + 1", "state.stale = 0", "train/engine"),
    Mutation("the best is thrown away", "train/engine.py", "{*self.state.kept, self.state.best_step, self.state.step}", "{*self.state.kept, self.state.step}", "train/engine"),
    Mutation("one more is kept", "train/engine.py", "[-most:]", "[-most - 1 :]", "train/engine train/checkpoint"),
    Mutation("the window is forgotten", "train/engine.py", "self.state = State(step=found.step, **data)", "self.state = State(step=found.step, **data | {'window': None})", "train/engine"),
    Mutation("moments are forgotten", "train/optimizers.py", "optimizer.state[named[name]][kind] = beside(value, named[name], fused or kind != \"step\")", "pass", "train/engine train/optimizers"),
    Mutation("the moving mean is forgotten", "train/engine.py", "x.copy_(spread(moving[key].to(x.device), x))", "pass", "train/engine"),
    Mutation("the task's state is forgotten", "train/engine.py", "self.task.restore(found.tensors.get(\"task\", {}))", "pass", "train/engine train/memory"),
    Mutation("metrics are not cut back", "train/engine.py", "self.journal.cut(position)", "pass", "train/engine"),
    Mutation("another seed may go on", "train/engine.py", "if data.pop(\"seed\") != self.seed:", "if data.pop(\"seed\") is None:", "train/engine train/memory"),
    Mutation("evaluated with the raw weights", "train/engine.py", "stack.enter_context(shadow.used())", "pass", "train/engine train/averages"),
    Mutation("evaluated with dropout", "train/assess.py", "part.eval()", "part.train()", "train/engine train/memory"),
    Mutation("the last batch counted twice", "train/assess.py", "value.double() * real", "value.double()", "train/mended"),
    Mutation("everything decays", "train/optimizers.py", "return sum(size > 1 for size in parameter.shape) > 1", "return True", "train/optimizers"),
    Mutation("the moving mean moves the other way", "train/averages.py", "1 - self.keep", "self.keep", "train/averages"),
    Mutation("a tied weight is exchanged twice", "train/averages.py", "done.add(id(x))", "pass", "train/averages"),
    Mutation("no sum is checked", "train/checkpoint.py", "if digest(path / name) != wanted:", "if False:", "train/checkpoint"),
    Mutation("an unknown file is welcome", "train/checkpoint.py", "sorted(present ^ set(manifest))", "sorted(set(manifest) - present)", "train/checkpoint"),
    Mutation("the oldest first", "train/checkpoint.py", "sorted(self.all(), reverse=True)", "sorted(self.all())", "train/checkpoint"),
    Mutation("what a crash left stays", "train/checkpoint.py", "if path.name.startswith(HIDDEN):", "if False:", "train/checkpoint"),
    Mutation("half a line stays", "train/metrics_log.py", "if end < file.seek(0, os.SEEK_END):", "if False:", "train/metrics_log"),
    Mutation("a full disk leaves half a line", "train/metrics_log.py", "file.truncate(end)\n        raise", "pass\n        raise", "train/metrics_log"),
    Mutation("a journal is cut anywhere", "train/metrics_log.py", "if file.read(1) != b\"\\n\":", "if False:", "train/metrics_log"),
    Mutation("gradients of one process", "train/distribution.py", "gradient.copy_(total.view_as(gradient))", "pass", "train/distribution"),
    Mutation("a gradient that one lacks", "train/distribution.py", "parameter.grad = torch.zeros_like(parameter)", "continue", "train/mended"),
    Mutation("the others go on", "train/distribution.py", "if speaker < self.size:", "if False:", "train/distribution"),
    Mutation("warm-up begins at 0", "train/schedules.py", "min((step + 1) / warmup, 1.0)", "min(step / warmup, 1.0)", "train/optimizers train/engine"),
    Mutation("Vaswani's peak is late", "train/schedules.py", "min((step + 1) / self.warmup, math.sqrt(self.warmup / (step + 1)))", "min(step / self.warmup, math.sqrt(self.warmup / (step + 1)))", "train/optimizers"),
    Mutation("a layer that is not the first", "train/nonfinite.py", "if not found and not finite(output):", "if not finite(output):\n                found.clear()", "train/nonfinite"),
    # a run
    Mutation("unknown keys pass", "train/runfile.py", "if key not in known:", "if False:", "train/runfile train/runlines train/runhostile train/runwriting"),
    Mutation("the wrong line is named", "train/runfile.py", "origin = self.origins.get(blame, 0)", "origin = 1", "train/runfile train/runlines train/runhostile train/runwriting"),
    Mutation("an override is forgotten", "train/runfile.py", "data[path[-1]] = given.value", "pass", "train/runfile train/runlines train/runhostile train/runwriting"),
    Mutation("changed data goes on", "run/fingerprints.py", "if before.get(name, now) != now:", "if False:", "train/prints"),
    Mutation("the wrong weights are kept", "run/result.py", "fill_weights(net, average_weights(weights_of(job, chosen, goal_of(job.run.task).kept)))", "fill_weights(net, weights_of(job, chosen, goal_of(job.run.task).kept)[-1])", "train/averages"),
    Mutation("a damaged one in the mean", "run/result.py", "if problem := find_damage(there[step]) if step in there else \"it is missing\":", "if problem := \"\" if step in there else \"it is missing\":", "train/averages train/memory"),
    Mutation("any seed gives these weights", "run/job.py", "seed_step(run.seed, 0, -1 % (1 << 32))", "seed_step(0, 0, -1 % (1 << 32))", "train/mended"),
    Mutation("a piece is mixed with itself", "modalities/images/augmentation.py", "partners(rows, self.rows(step).tolist())", "partners(rows, list(rows))", "train/images train/image_teachers"),
    Mutation("all rows change alike", "modalities/images/augmentation.py", "philox(AUGMENT, self.seed, step, int(row)) for row in rows", "philox(AUGMENT, self.seed, step) for row in rows", "train/images train/image_teachers"),
    Mutation("the token learns labels", "tasks/classify.py", "said.teacher, theirs", "said.label, theirs", "train/images train/image_teachers"),
    Mutation("a teacher sees other numbers", "modalities/images/teaching.py", "(images * std + mean) * 255", "images * 255", "train/images train/image_teachers"),
    Mutation("each pass makes a step", "tasks/classify.py", "update=i == PASSES", "update=True", "train/images train/image_teachers"),
    Mutation("images of any channels", "modalities/images/processor_kind.py", "if images.channels != channels:", "if False:", "verbs/seeing"),
    Mutation("too few words", "run/job.py", "< size.needed:", "< 0:", "train/verbs train/interruptions train/refusals train/evaluating"),
    Mutation("another vocabulary teaches", "modalities/text/teaching.py", "if text_processor(teacher).to_bytes() != text_processor(student).to_bytes():", "if False:", "train/teaching train/verbs train/interruptions train/refusals train/evaluating"),
    Mutation("smoke never fails", "run/training.py", "if not losses[-1] < factor * losses[0]:", "if False:", "train/verbs train/interruptions train/refusals train/evaluating train/recipes"),
    Mutation("a run is written over", "run/training.py", "    if (folder / FILE).exists() and not again:\n        raise InputError(", "    if False:\n        raise InputError(", "train/verbs train/interruptions train/refusals train/evaluating"),
    Mutation("two in one folder", "run/machine.py", "fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)", "pass", "train/verbs train/interruptions train/refusals train/evaluating train/memory"),
    Mutation("bad rows are tolerated", "modalities/splits.py", "check_fault_share(rows.faults, len(rows) + len(rows.faults), bad, name)", "pass", "train/verbs train/interruptions train/refusals train/evaluating"),
    Mutation("held out of nothing", "modalities/splits.py", "splits[\"train\"], splits[\"held_out\"] = split_held_out(splits[\"train\"], share, seed)", "_, splits[\"held_out\"] = split_held_out(splits[\"train\"], share, seed)", "train/mended"),
    Mutation("evaluation is shuffled", "modalities/text/batching.py", 'rows_of(given), split == "train"', "rows_of(given), True", "train/verbs train/interruptions train/refusals train/evaluating verbs/translate verbs/translate_pieces"),
    Mutation("a batch of any size", "modalities/text/batching.py", "budget=plan.data.budget", "budget=10 * plan.data.budget", "train/verbs train/interruptions train/refusals train/evaluating train/memory"),
    Mutation("long rows pass uncut", "modalities/text/lines.py", "*row[: self.longest - 1]", "*row", "train/verbs train/interruptions train/refusals train/evaluating"),
    Mutation("an unfinished run has a model", "folders.py", 'if (folder / "model").is_dir():', "if True:", "train/mended"),
    # texts that go on
    Mutation("a text is not read again", "decode/incremental.py", "if read.shape[1] > length:", "if False:", "verbs/generate"),
    Mutation("all of a text is read again", "decode/incremental.py", "ids = read = read[:, -half:]", "ids = read = read[:, -length:]", "verbs/generate"),
    Mutation("phrases with their frames", "modalities/text/writing.py", "literal.unframed(needed(decoding))", "literal.ids(needed(decoding))", "verbs/generate"),
    Mutation("a choice is judged from the wrong place", "modalities/text/generator.py", "start, whole = start - cut, whole[cut:]", "start, whole = start, whole[cut:]", "verbs/prompting"),
    # experts
    Mutation("no gate", "nn/switch.py", "y * gate[order, None]", "y", "nn/switch"),
    Mutation("one row for all", "nn/switch.py", "places // max(x.shape[1], 1)", "places * 0", "nn/switch"),
    Mutation("places rounded down", "nn/switch.py", ".ceil()[group]", ".floor()[group]", "nn/switch"),
    Mutation("jitter for the expert too", "nn/switch.py", "seen = seen * torch", "seen *= torch", "nn/switch"),
    Mutation("load of each process", "nn/switch.py", "wanted, sums = total(wanted), total(sums)", "pass", "train/experts"),
    Mutation("tokens come back to others", "nn/exchange.py", "found.sum(0).tolist()), found.T)", "found.sum(0).tolist()), found)", "train/experts"),
    # mixers that see a sequence as a whole
    Mutation("the imaginary part", "nn/mixers/fourier.py", "torch.fft.fft2(precise).real.to(x.dtype)", "torch.fft.fft2(precise).imag.to(x.dtype)", "whole"),
    Mutation("a normalised transform", "nn/mixers/fourier.py", "torch.fft.fft2(precise)", "torch.fft.fft2(precise, norm='ortho')", "whole"),
    Mutation("padding is transformed along", "nn/mixers/fourier.py", "if real is None:", "if True:", "whole"),
    Mutation("features not mirrored", "nn/mixers/fourier.py", "take_along_dim(mirrored[..., None], -2).flip(-1)", "take_along_dim(mirrored[..., None], -2)", "whole mixers"),
    Mutation("a chirp that is not reduced", "nn/mixers/fourier.py", "(places.square() % (2 * length)) * (math.pi / length.double())", "(places.square() * (math.pi / length)).float()", "whole"),
    Mutation("real tokens out of order", "nn/mixers/whole.py", "argsort(dim=-1, stable=True)", "argsort(dim=-1, stable=True, descending=True)", "whole"),
    Mutation("padding is read", "nn/mixers/whole.py", ".masked_fill(behind[..., None], 0.0)", "", "whole"),
    Mutation("a cache is ignored", "nn/mixers/whole.py", "if cache is not None:", "if False:", "whole"),
    Mutation("pairs are ignored", "nn/mixers/whole.py", "mask.structured(name).keys", "mask.keys", "whole"),
    Mutation("any number of tokens", "nn/mixers/tokens.py", "if x.shape[-2] > self.length:", "if False:", "whole"),
    Mutation("padding is mixed", "nn/mixers/tokens.py", "x if real is None else to_the_front(x, real)", "x", "whole models"),
    Mutation("the forget gate starts shut", "nn/mixers/workspace.py", "Gate(site.dim, 1.0)", "Gate(site.dim, 0.0)", "whole"),
    Mutation("nothing is forgotten", "nn/mixers/workspace.py", "self.forget(pooled, slots) * slots", "slots", "whole"),
    Mutation("everyone writes", "nn/mixers/workspace.py", "Softmax(site.dropout) if keep is None else TopK(keep, site.dropout)", "Softmax(site.dropout)", "whole"),
    Mutation("padding writes", "nn/mixers/workspace.py", "mask=Mask(keys=real)", "mask=Mask()", "whole"),
    Mutation("padding opens the gates", "nn/mixers/workspace.py", "mean(x, real)", "mean(x, None)", "whole"),
    Mutation("slots are not carried", "models/workspace.py", "x, slots = x + told.heard, told.slots", "x = x + told.heard", "whole"),
    Mutation("half of the directions", "nn/influence.py", "torch.eye(size,", "torch.eye(size // 2, size,", "whole"),
    Mutation("who listens hears the second run", "nn/influence.py", ", heard_by({}):", ":", "whole"),
    # latents
    Mutation("powers of frequencies", "nn/latents.py", "torch.linspace(1.0, resolution / 2, bands,", "torch.logspace(0.0, 1.0, bands,", "models/perceiver"),
    Mutation("every look has the first one's weights", "nn/latents.py", "self.cross if i == 0 or self.again is None else self.again", "self.cross", "models/perceiver"),
    Mutation("a query is kept", "models/perceiverlm.py", "skip=False,", "skip=True,", "models/perceiver"),
    Mutation("latents look at padding", "nn/latents.py", "mask=Mask(keys=keys)", "mask=Mask()", "models/perceiver"),
    Mutation("the context is not normed", "nn/latents.py", "self.context_norm(context)", "context", "models/perceiver"),
    Mutation("places of padding", "models/perceiverlm.py", "Mask(keys=keys).positions(ids.shape[1], ids.device)\n        states", "Mask().positions(ids.shape[1], ids.device)\n        states", "models"),
    Mutation("one image alone is not asked for", "models/mixer.py", "check_image_shape(images, self.config.channels, self.config.image)", "images", "models/mixer"),
    # the comparison of attentions
    Mutation("compared on what is learned", "comparison/textual.py", "self.ids[cut:] if held_out else self.ids[:cut]", "self.ids", "comparison/compare"),
    Mutation("each begins anywhere", "comparison/nets.py", "weight.data = theirs[name].data", "weight.data = torch.rand_like(weight)", "comparison/compare"),
    Mutation("error of nothing", "comparison/nets.py", "(found - exact).norm()", "(exact - exact).norm()", "comparison/compare"),
    Mutation("the dearest stay", "comparison/costs.py", "kept.pop()", "kept.pop(0)", "comparison/compare"),
    Mutation("cubes are foretold", "comparison/costs.py", "1.0), 2.0)", "1.0), 3.0)", "comparison/compare"),
    Mutation("never busy", "comparison/machine.py", "self.owns < QUIET * self.walls", "self.owns < 0", "comparison/compare"),
    Mutation("equal time is the next point", "comparison/report.py", "(seconds - before) / max", "(after - before) / max", "comparison/compare"),
    # hashes, rounds, and the way back
    Mutation("a query looks at itself", "nn/hash_rounds.py", "found = j >= i if self.causal else (j == i) | (j == FAR)", "found = j > i if self.causal else j == FAR", "nn/lsh"),
    Mutation("no ring", "nn/hash_rounds.py", "filled.clamp(min=1) - 1) * m + places", "filled.clamp(min=1) - 1) * 0 + places", "nn/lsh"),
    Mutation("keys count as often as they are met", "nn/hash_rounds.py", "for earlier in range(r) if self.once else ()", "for earlier in ()", "nn/lsh", 2),
    Mutation("a band of one key more", "nn/hash_rounds.py", ".abs_() >= self.width", ".abs_() >= self.width + 2", "nn/lsh"),
    Mutation("padding in a bucket", "nn/kernels/lsh.py", "codes.masked_fill(~real, self.buckets)", "codes", "nn/lsh"),
    Mutation("one side of a direction", "nn/kernels/lsh.py", "best.int() + side * (size // 2)", "best.int()", "nn/lsh"),
    Mutation("gradient of the chunk before", "nn/hash_rounds.py", "own[:, :-1] += x[:, 1:, :m]", "pass", "nn/lsh"),
    Mutation("gradient of the ring", "nn/hash_rounds.py", "of_all.scatter_add_(1, first, x[:, 0, :m])", "pass", "nn/lsh"),
    Mutation("what an empty place asks", "nn/hash_rounds.py", ".masked_fill(empty[chunks, queries], torch.inf)", "", "nn/lsh"),
    Mutation("rounds in a row, not in a ring", "nn/hash_rounds.py", "self.order[r if self.once else r - 1, rows]", "self.order[r, rows]", "nn/lsh"),
    Mutation("hashed again on the way back", "nn/kernels/lsh.py", "kept(lambda: self.hash(k, self.draw()))", "self.hash(k, self.draw())", "nn/reversible"),
    Mutation("hashes are never redrawn", "nn/kernels/lsh.py", "self.calls += 1", "pass", "nn/lsh"),
    Mutation("decisions made anew on the way back", "nn/recomputation.py", "stack.enter_context(self.notes.again())", "pass", "nn/lsh"),
    Mutation("other dropout on the way back", "nn/reversible.py", "with then(memory.feeding):", "if True:", "nn/reversible"),
    Mutation("only the last layer's gradient", "nn/reversible.py", "found[id(weight)] += part", "found[id(weight)].copy_(part)", "nn/reversible"),
    Mutation("chunks without a ring", "nn/kernels/chunked.py", "[:, None] + step) % chunks * m", "[:, None] + step).clamp(min=0) * m", "nn/lsh"),
    # vision: norms that are folded
    Mutation("folded without its shift", "nn/convolution.py", "nn.Parameter(shift), nn.Identity()", "nn.Parameter(0 * shift), nn.Identity()", "nn/folding"),
    Mutation("folded into the columns", "nn/mixers/non_local.py", "out.weight * factor[:, None]", "out.weight * factor[:1]", "nn/folding"),
    Mutation("shift without the mean", "nn/batchnorm.py", "self.bias - self.mean * self.factor()", "self.bias", "nn/folding"),
    # vision: DeiT, CaiT, VOLO and the recipe's parts
    Mutation("both heads on one token", "models/deit.py", "self.teacher_head(x[:, 1])", "self.teacher_head(x[:, 0])", "models/deit"),
    Mutation("heads added, not averaged", "models/deit.py", "self.teacher_head(teacher))) / 2", "self.teacher_head(teacher)))", "models/deit"),
    Mutation("class attention without the class", "nn/classattention.py", "self.mixer(seen[:, :1], seen)", "self.mixer(seen[:, :1], seen[:, 1:])", "models/cait"),
    Mutation("class attention without LayerScale", "nn/classattention.py", "token + self.branch(self.mixer", "token + (self.mixer", "models/cait"),
    Mutation("one scale for all depths", "models/cait.py", "0.1 if depth <= 18 else", "0.1 if depth <= 19 else", "models/cait"),
    Mutation("windows averaged", "nn/mixers/outlook.py", "return (scores * width**-0.5).softmax(-1)", "return (scores * width**-0.5).softmax(-1) / 9", "models/volo"),
    Mutation("outlook over queries", "nn/mixers/outlook.py", "width**-0.5).softmax(-1)", "width**-0.5).softmax(-2)", "models/volo"),
    Mutation("outlook told by the corner", "nn/mixers/outlook.py", "F.avg_pool2d(x.movedim(-1, 1), self.stride, ceil_mode=True).movedim(1, -1)", "x[:, :: self.stride, :: self.stride]", "models/volo"),
    Mutation("half of the tokens' word", "models/volo.py", "0.5 * self.token_head(patches)", "self.token_head(patches)", "models/volo"),
    Mutation("the share of an uncut box", "modalities/images/mixing.py", "Mix(1 - box.area / (height * width), box)", "Mix(share, box)", "data/augment"),
    Mutation("smoothing spares the right class", "modalities/images/mixing.py", "(1 - smoothing) + smoothing / classes", "1 + smoothing / classes", "data/augment"),
    Mutation("copies are alike", "data/repeated.py", "* self.copies + np.arange(self.copies)", "* self.copies + 0 * np.arange(self.copies)", "data/augment"),
    Mutation("epochs grow by copies", "data/repeated.py", "return self.steps", "return len(self.order)", "data/augment"),
    Mutation("half a truncation", "nn/initialization.py", "wide = std / NARROWED", "wide = std", "data/augment"),
    Mutation("the token learns from itself", "tasks/teacher.py", "teacher.argmax(-1)", "student.argmax(-1)", "tasks/token"),
    Mutation("the change falls", "tasks/adversarial.py", "change + step * change.grad.sign()", "change - step * change.grad.sign()", "tasks/token"),
    Mutation("the clean word moves along", "tasks/adversarial.py", "logits.detach() if clean is None else clean", "logits.detach()", "tasks/token"),
    # parts and replay
    Mutation("one rate for all parts", "train/runfile.py", "return settings.own.get(part, settings.usual) if isinstance(settings, Parts) else settings", "return settings.usual if isinstance(settings, Parts) else settings", "train/parts"),
    Mutation("the memory keeps what came after", "data/replay.py", "os.truncate(path, size)", "pass", "train/parts"),
    Mutation("all of the memory is drawn from", "data/replay.py", "there = min(self.count, self.room)", "there = self.count", "train/parts"),
    Mutation("steps gather alike", "train/engine.py", "seed_step(self.seed, step, self.world.rank, GATHERED)", "pass", "train/parts"),
]  # fmt: skip


def file_of(name: str) -> str:
    """ "mask" is tests/contracts/test_mask.py, and "train/engine" tests/train/test_engine.py."""
    folder, _, word = name.rpartition("/")
    return str(Path("tests") / (folder if "/" in name else "contracts") / f"test_{word}.py")


def run(mutation: Mutation | None, folder: Path) -> tuple[bool, str]:
    """Whether the tests pass on this copy, and their last words."""
    tests = [file_of(name) for name in (mutation.tests if mutation else "mask").split()]
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    environment = os.environ | {"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1, 2):  # 1: a test failed; 2: not even importable
        raise SystemExit(f"pytest did not run:\n{done.stdout}{done.stderr}")
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return done.returncode == 0, failed[0] if failed else ""


def attempt(mutation: Mutation) -> tuple[Mutation, bool, str]:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        shutil.copytree(ROOT / "src", folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        path = folder / "regard" / mutation.file
        text = path.read_text()
        if text.count(mutation.old) != mutation.times:  # someone is at work in the source
            return mutation, True, "its line is gone"
        path.write_text(text.replace(mutation.old, mutation.new))
        survived, words = run(mutation, folder)
    return mutation, survived, words


def stale(mutation: Mutation) -> bool:
    return (ROOT / "src/regard" / mutation.file).read_text().count(mutation.old) != mutation.times


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="only the mutations whose names or files hold one of these")
    parser.add_argument("-j", type=int, default=1, metavar="N", help="how many at once")
    options = parser.parse_args()
    chosen = [m for m in MUTATIONS if not options.words or any(word in f"{m.name} {m.file}" for word in options.words)]
    if gone := [m.name for m in chosen if stale(m)]:
        print("These mutations no longer find their lines; mend them:", *gone, sep="\n  ")
        return 2
    survivors = []
    with ThreadPoolExecutor(options.j) as pool:
        for mutation, survived, words in pool.map(attempt, chosen):
            print("SURVIVED" if survived else "noticed ", f"{mutation.name}  ({mutation.file})  {words}", flush=True)
            survivors += [mutation.name] if survived else []
    print(f"{len(chosen)} mutations, {len(survivors)} survived", *survivors, sep="\n  ")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
