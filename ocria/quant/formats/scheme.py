"""How a module is quantised, in words that all formats share."""

from dataclasses import dataclass

from ocria.quant.tensors import Fp8Weight, Weight


@dataclass(frozen=True, slots=True, order=True)
class Scheme:
    """kind: `fp8` or `nvfp4`. granularity: of FP8 scales, empty for NVFP4. activations: those of `Fp8Weight`; for NVFP4
    `local` (blocks of the input get scales on the fly, over one multiplier) or `none`; None where the file may have
    either. pre_quant_scale: whether the input is multiplied by a vector first; None as before."""

    kind: str
    granularity: str = ""
    activations: str | None = "none"
    pre_quant_scale: bool | None = False

    @property
    def scaled_input(self) -> bool | None:
        """Whether the file holds a number for the input."""
        return None if self.activations is None else self.activations in ("static", "local")

    def __str__(self) -> str:
        words = [self.kind, *([f"with a scale per {self.granularity}"] if self.granularity else [])]
        if self.activations is not None:
            words.append(f"and {'plain' if self.activations == 'none' else self.activations} activations")
        words += ["and a scale of the input"] if self.pre_quant_scale else []
        return " ".join(words)


def scheme_of(weight: Weight) -> Scheme:
    """The scheme of a quantised weight."""
    if isinstance(weight, Fp8Weight):
        return Scheme("fp8", weight.granularity, weight.activations)
    activations = "none" if weight.input_multiplier is None else "local"
    return Scheme("nvfp4", "", activations, weight.pre_quant_scale is not None)
