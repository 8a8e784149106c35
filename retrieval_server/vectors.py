"""FAISS indexes over unit vectors: exact or approximate, in memory or on GPUs, one spec for all.

| spec | what it is |
| --- | --- |
| `flat` | exact inner product in float32 |
| `fp16` | exact over half-precision vectors: half the memory |
| `ivf[:nlist[,nprobe]]` | inverted file over nlist cells, nprobe of them searched |
| `hnsw[:M[,ef]]` | navigable small-world graph |
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from retrieval_server.errors import IndexStateError

KINDS = ("flat", "fp16", "ivf", "hnsw")
_SPEC = re.compile(r"(flat|fp16|ivf|hnsw)(?::(\d+)(?:,(\d+))?)?")
GPU_OVERFETCH = 4
"""GPU indexes take no row filter: so many times more rows are asked for, and filtered afterwards."""


@dataclass(frozen=True, slots=True)
class VectorSpec:
    """A parsed spec; `first` and `second` are nlist and nprobe, or M and efSearch, 0 = chosen by size."""

    kind: str
    first: int = 0
    second: int = 0

    @classmethod
    def parse(cls, text: str) -> VectorSpec:
        """Raises `IndexStateError` naming the forms there are."""
        match = _SPEC.fullmatch(text.strip())
        if not match or (match[2] and match[1] in ("flat", "fp16")):
            raise IndexStateError(f"vector index {text!r}: use flat, fp16, ivf[:nlist[,nprobe]] or hnsw[:M[,efSearch]]")
        return cls(match[1], int(match[2] or 0), int(match[3] or 0))

    @property
    def exact(self) -> bool:
        return self.kind in ("flat", "fp16")


def build_faiss(vectors_ND: np.ndarray, spec: VectorSpec) -> Any:
    """A FAISS index over the vectors, rows are positions; IVF is trained on them."""
    import faiss

    count, dim = vectors_ND.shape
    if spec.kind == "fp16":
        index: Any = faiss.IndexScalarQuantizer(dim, faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT)
        index.train(vectors_ND)
    elif spec.kind == "ivf" and count >= 40:
        cells = min(spec.first or max(1, round(4 * count**0.5)), count // 39 or 1)
        index = faiss.IndexIVFFlat(faiss.IndexFlatIP(dim), dim, cells, faiss.METRIC_INNER_PRODUCT)
        index.cp.seed = 0
        index.train(vectors_ND)
        index.nprobe = min(spec.second or max(8, cells // 4), cells)
    elif spec.kind == "hnsw":
        index = faiss.IndexHNSWFlat(dim, spec.first or 32, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efSearch = spec.second or 128
    else:
        index = faiss.IndexFlatIP(dim)
    index.add(vectors_ND)
    return index


def to_gpus(index: Any, gpus: int) -> Any:
    """The index on so many GPUs, its rows shared out where there are several.

    Raises:
        IndexStateError: this FAISS has no GPU code, there are fewer GPUs, or the kind has no GPU form (hnsw).
    """
    import faiss

    if not hasattr(faiss, "StandardGpuResources"):
        raise IndexStateError("dense_gpus needs FAISS with GPU code: pip install 'legal-rl[faiss-gpu]'")
    there = faiss.get_num_gpus()
    if there < gpus:
        raise IndexStateError(f"dense_gpus is {gpus}, this machine shows {there}")
    options = faiss.GpuMultipleClonerOptions()
    options.shard, options.useFloat16 = gpus > 1, isinstance(index, faiss.IndexScalarQuantizer)
    try:
        return faiss.index_cpu_to_gpus_list(index, co=options, gpus=list(range(gpus)))
    except RuntimeError as error:
        raise IndexStateError(f"this vector index has no GPU form: {str(error).splitlines()[-1][:150]}") from None


def search_parameters(index: Any, mask_N: np.ndarray | None) -> Any:
    """FAISS parameters that let only the rows of the mask through; None = all rows."""
    import faiss

    if mask_N is None:
        return None
    bits = np.packbits(mask_N.astype(bool), bitorder="little")
    selector = faiss.IDSelectorBitmap(bits)  # pyright: ignore[reportCallIssue]
    if isinstance(index, faiss.IndexIVF):
        return faiss.SearchParametersIVF(sel=selector, nprobe=index.nprobe)  # pyright: ignore[reportCallIssue]
    if isinstance(index, faiss.IndexHNSW):
        made: Any = faiss.SearchParametersHNSW  # pyright: ignore[reportAttributeAccessIssue]
        return made(sel=selector, efSearch=index.hnsw.efSearch)
    return faiss.SearchParameters(sel=selector)  # pyright: ignore[reportCallIssue]


def save_faiss(index: Any, path: Path) -> None:
    """Write an index that takes time to build (ivf, hnsw)."""
    import faiss

    faiss.write_index(index, str(path))


def load_faiss(path: Path) -> Any:
    """What `save_faiss` wrote; the caller has checked the file's hash."""
    import faiss

    return faiss.read_index(str(path))
