"""What there is on this machine for a GPU's tests: enough GPUs or a reason to skip, and what they are."""

import os
import shutil
import subprocess
from functools import cache

import torch
import torch.distributed as dist


def lacking(wanted: int = 1) -> str:
    """Why a test that needs so many GPUs cannot run here, in words; "" if it can."""
    if not torch.backends.cuda.is_built():
        return f"needs a GPU, and PyTorch {torch.__version__} is built without CUDA"
    if not torch.cuda.is_available():
        return "needs a GPU, and PyTorch finds none"
    if (found := torch.cuda.device_count()) < wanted:
        return f"needs {wanted} GPUs, and PyTorch finds {found}"
    return ""


@cache
def described() -> dict[str, object]:
    """GPUs with their memory, the driver, and versions; None for what is not there."""
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    gpus = [torch.cuda.get_device_properties(number) for number in range(count)]
    return {
        "gpus": [{"name": gpu.name, "memory_gb": round(gpu.total_memory / 1e9, 1)} for gpu in gpus],
        "driver": next(iter(nvidia_smi("--query-gpu=driver_version")), None),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "nccl": ".".join(map(str, torch.cuda.nccl.version())) if dist.is_nccl_available() and count else None,
        "cores": os.cpu_count(),
    }


def nvidia_smi(query: str) -> list[str]:
    """The lines that nvidia-smi answers; none where there is no nvidia-smi, or it fails."""
    if not shutil.which("nvidia-smi"):
        return []
    command = ["nvidia-smi", query, "--format=csv,noheader,nounits"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return done.stdout.split("\n")[:-1] if done.returncode == 0 else []
