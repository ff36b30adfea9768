"""Files of quantised weights: compressed-tensors, ModelOpt, and fine-grained FP8."""

from ocria.quant.formats.read import QuantizedCheckpoint, read_quantized
from ocria.quant.formats.write import OnDemand, write_checkpoint

__all__ = ["OnDemand", "QuantizedCheckpoint", "read_quantized", "write_checkpoint"]
