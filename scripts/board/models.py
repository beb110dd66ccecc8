# SPDX-License-Identifier: MIT
"""Tiny GGUF models for llama-bench: real tensor names and shapes, random weights from a fixed seed.

What llama-bench allocates and dispatches follows from the widths, not from the weights' values, so a model of
one layer over a vocabulary of bytes stands in for one of gigabytes. The same table gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt

from .cache import Entry, Say, entry, files_hash


@dataclass(frozen=True)
class ModelSpec:
    """One model: architecture (llama.cpp's name) and widths, all in elements.

    ``hidden`` and ``feed_forward`` are multiples of 32, the block of Q4_0.
    """

    name: str
    arch: str
    hidden: int
    feed_forward: int
    heads: int
    kv_heads: int
    layers: int
    rope_base: float
    rms_epsilon: float
    context: int = 4096

    @property
    def head_dim(self) -> int:
        """Elements of one attention head."""
        return self.hidden // self.heads


MODELS = (
    ModelSpec("minimal", "llama", 64, 128, 2, 1, 1, rope_base=1e4, rms_epsilon=1e-5),
    # Qwen2.5-3B (its config.json) with one of 36 layers: the widths decide every matrix kernel's tile sizes.
    ModelSpec("wide", "qwen2", 2048, 11008, 16, 2, 1, rope_base=1e6, rms_epsilon=1e-6),
)

_SEED = 20

#: SentencePiece's specials, then one token for every byte: the least llama.cpp can tokenise text with.
_SPECIALS = (
    ("<unk>", gguf.TokenType.UNKNOWN),
    ("<s>", gguf.TokenType.CONTROL),
    ("</s>", gguf.TokenType.CONTROL),
)
_TOKENS = (*_SPECIALS, *((f"<0x{byte:02X}>", gguf.TokenType.BYTE) for byte in range(256)))
VOCABULARY = len(_TOKENS)


def models(say: Say) -> Entry:
    """The directory with every model of :data:`MODELS`, as ``NAME.gguf``."""
    inputs = {"specs": [asdict(spec) for spec in MODELS], "source": files_hash([Path(__file__)])}
    return entry("models", inputs, lambda out: build_models(out, say), say)


def build_models(out: Path, say: Say) -> None:
    """Write every model of :data:`MODELS` to ``out/NAME.gguf``."""
    for spec in MODELS:
        path = out / f"{spec.name}.gguf"
        write_model(spec, path)
        say(f"models: {path.name} {path.stat().st_size >> 10} KiB")


def tensor_shapes(spec: ModelSpec) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Names and shapes (rows, columns) of a model's tensors, in the file's order.

    No ``output.weight``: llama.cpp then uses the embedding for it, as Qwen2.5-3B does.
    """
    hidden, kv = spec.hidden, spec.kv_heads * spec.head_dim
    yield "token_embd.weight", (VOCABULARY, hidden)
    for layer in range(spec.layers):
        block = f"blk.{layer}"
        yield f"{block}.attn_norm.weight", (hidden,)
        for projection, rows in (("q", hidden), ("k", kv), ("v", kv)):
            yield f"{block}.attn_{projection}.weight", (rows, hidden)
            if spec.arch == "qwen2":  # the one of the two with attention biases
                yield f"{block}.attn_{projection}.bias", (rows,)
        yield f"{block}.attn_output.weight", (hidden, hidden)
        yield f"{block}.ffn_norm.weight", (hidden,)
        yield f"{block}.ffn_gate.weight", (spec.feed_forward, hidden)
        yield f"{block}.ffn_up.weight", (spec.feed_forward, hidden)
        yield f"{block}.ffn_down.weight", (hidden, spec.feed_forward)
    yield "output_norm.weight", (hidden,)


def write_model(spec: ModelSpec, path: Path) -> None:
    """Write one model: matrices in Q4_0 by gguf's own quantisation, vectors in F32."""
    writer = gguf.GGUFWriter(path, spec.arch)
    _add_metadata(writer, spec)
    random = np.random.Generator(np.random.PCG64(_SEED))
    for name, shape in tensor_shapes(spec):
        if len(shape) == 1:
            writer.add_tensor(name, _vector(name, shape, random))
        else:
            q4_0 = gguf.GGMLQuantizationType.Q4_0
            writer.add_tensor(name, gguf.quantize(_matrix(shape, random), q4_0), raw_dtype=q4_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_metadata(writer: gguf.GGUFWriter, spec: ModelSpec) -> None:
    writer.add_name(f"panthor-lab-{spec.name}")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q4_0)
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    writer.add_context_length(spec.context)
    writer.add_embedding_length(spec.hidden)
    writer.add_feed_forward_length(spec.feed_forward)
    writer.add_block_count(spec.layers)
    writer.add_head_count(spec.heads)
    writer.add_head_count_kv(spec.kv_heads)
    writer.add_rope_dimension_count(spec.head_dim)
    writer.add_rope_freq_base(spec.rope_base)
    writer.add_layer_norm_rms_eps(spec.rms_epsilon)
    writer.add_vocab_size(VOCABULARY)
    writer.add_tokenizer_model("llama")
    writer.add_token_list([token for token, _ in _TOKENS])
    writer.add_token_scores([0.0] * VOCABULARY)
    writer.add_token_types([kind for _, kind in _TOKENS])
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)


def _vector(name: str, shape: tuple[int, ...], random: np.random.Generator) -> npt.NDArray[np.float32]:
    """Norms near 1, biases near 0: keeps activations finite."""
    offset = 1.0 if name.endswith("norm.weight") else 0.0
    return (offset + 0.02 * random.standard_normal(shape, dtype=np.float32)).astype(np.float32)


def _matrix(shape: tuple[int, ...], random: np.random.Generator) -> npt.NDArray[np.float32]:
    return random.standard_normal(shape, dtype=np.float32) / np.float32(np.sqrt(shape[1]))
