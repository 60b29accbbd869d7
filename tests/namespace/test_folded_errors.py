"""A call with wrong arguments of anything public shows at most one frame of fastdist."""

from __future__ import annotations

from tests.kernels.cpu.processes import run_script

# Calls of every public function and class, and of every method of Tensor, with no argument and with
# one to three objects that nothing takes. It runs in another process, because some calls succeed
# and change settings.
SCRIPT = """
import traceback, warnings
import fastdist as fd
from fastdist.core.folded_frames import OUR_FILES
from tests.namespace.public_modules import public_modules

# These start a process or make this module importable as torch.
LEFT_OUT = {"spawn", "start_processes", "install_as_torch"}
warnings.simplefilter("ignore")
modules = {"fastdist": fd, "fastdist.Tensor": fd.Tensor, **public_modules()}
calls = {}
for path, module in modules.items():
    for name in sorted(set(dir(module)) - LEFT_OUT):
        one = getattr(module, name)
        if name[0] != "_" and callable(one) and str(one.__module__).startswith("fastdist"):
            calls.setdefault(id(one), (f"{path}.{name}", one))
failed = 0
for name, one in calls.values():
    for count in range(4):
        try:
            one(*[object() for _ in range(count)])
        except Exception as error:
            failed += 1
            files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
            ours = [file for file in files if file.startswith(OUR_FILES)]
            if len(ours) > 1:
                print(name, count, len(ours))
print("failed", failed > 5000)
"""


def test_an_error_of_anything_public_shows_at_most_one_frame_of_ours() -> None:
    assert run_script(SCRIPT) == "failed True"
