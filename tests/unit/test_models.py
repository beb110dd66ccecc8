# SPDX-License-Identifier: MIT
"""The models read back with gguf's own reader: what llama.cpp will be told, and that bytes repeat."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest

from board.models import MODELS, VOCABULARY, ModelSpec, tensor_shapes, write_model

MINIMAL, WIDE = MODELS
#: The wide model's architecture (biases, grouped heads) at widths that take no time.
NARROW_QWEN = ModelSpec("narrow", "qwen2", 128, 96, 4, 2, 2, rope_base=1e6, rms_epsilon=1e-6)


@pytest.fixture(params=[MINIMAL, NARROW_QWEN], ids=lambda spec: spec.name)
def spec(request: pytest.FixtureRequest) -> ModelSpec:
    assert isinstance(request.param, ModelSpec)
    return request.param


def _field(reader: gguf.GGUFReader, key: str) -> object:
    field = reader.get_field(key)
    assert field is not None, key
    return field.contents()


def test_tensors_have_the_shapes_and_types_of_the_table(spec: ModelSpec, tmp_path: Path) -> None:
    write_model(spec, tmp_path / "m.gguf")
    reader = gguf.GGUFReader(tmp_path / "m.gguf")
    # The file's order of dimensions is ggml's: columns first.
    found = {tensor.name: tuple(int(n) for n in reversed(tensor.shape)) for tensor in reader.tensors}
    assert found == dict(tensor_shapes(spec))
    for tensor in reader.tensors:
        assert tensor.tensor_type.name == ("Q4_0" if len(tensor.shape) == 2 else "F32"), tensor.name


def test_metadata_names_the_widths(spec: ModelSpec, tmp_path: Path) -> None:
    write_model(spec, tmp_path / "m.gguf")
    reader = gguf.GGUFReader(tmp_path / "m.gguf")
    assert _field(reader, "general.architecture") == spec.arch
    assert _field(reader, f"{spec.arch}.embedding_length") == spec.hidden
    assert _field(reader, f"{spec.arch}.feed_forward_length") == spec.feed_forward
    assert _field(reader, f"{spec.arch}.block_count") == spec.layers
    assert _field(reader, f"{spec.arch}.attention.head_count") == spec.heads
    assert _field(reader, f"{spec.arch}.attention.head_count_kv") == spec.kv_heads
    assert _field(reader, f"{spec.arch}.rope.dimension_count") == spec.hidden // spec.heads
    tokens = _field(reader, "tokenizer.ggml.tokens")
    assert isinstance(tokens, list)
    assert len(set(tokens)) == VOCABULARY == 3 + 256


def test_weights_are_finite_and_not_all_alike(spec: ModelSpec, tmp_path: Path) -> None:
    write_model(spec, tmp_path / "m.gguf")
    for tensor in gguf.GGUFReader(tmp_path / "m.gguf").tensors:
        values = gguf.dequantize(tensor.data, tensor.tensor_type)
        assert np.isfinite(values).all(), tensor.name
        assert values.std() > 0.001, tensor.name


def test_same_table_same_bytes(spec: ModelSpec, tmp_path: Path) -> None:
    write_model(spec, tmp_path / "one.gguf")
    write_model(spec, tmp_path / "two.gguf")
    assert (tmp_path / "one.gguf").read_bytes() == (tmp_path / "two.gguf").read_bytes()


def test_wide_has_the_widths_of_the_reported_model() -> None:
    shapes = dict(tensor_shapes(WIDE))
    assert shapes["blk.0.ffn_up.weight"] == (11008, 2048)
    assert shapes["blk.0.ffn_down.weight"] == (2048, 11008)
    assert shapes["blk.0.attn_k.weight"] == (256, 2048)  # 2 KV heads of 128
    assert shapes["blk.0.attn_q.bias"] == (2048,)


@pytest.mark.parametrize("spec", MODELS, ids=lambda spec: spec.name)
def test_rows_fit_q4_0_blocks(spec: ModelSpec) -> None:
    for name, shape in tensor_shapes(spec):
        assert len(shape) == 1 or shape[1] % 32 == 0, name
    assert spec.hidden % spec.heads == 0
    assert spec.heads % spec.kv_heads == 0
