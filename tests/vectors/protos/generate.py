"""Write requests.binpb, the descriptor set of the .proto files beside this one, with all imports."""

import subprocess
import sys
from importlib.resources import files
from pathlib import Path

HERE = Path(__file__).parent


def generate(out: Path) -> None:
    command = [sys.executable, "-m", "grpc_tools.protoc", "--include_imports", f"--descriptor_set_out={out}"]
    includes = [f"-I{HERE}", f"-I{files('grpc_tools') / '_proto'}"]
    subprocess.run([*command, *includes, *map(str, sorted(HERE.glob("*.proto")))], check=True)


if __name__ == "__main__":
    generate(HERE / "requests.binpb")
