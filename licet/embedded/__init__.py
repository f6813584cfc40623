"""The whole house on one machine: the servers, keys and addresses that production gets from elsewhere."""

import os

# Children are started by fork and exec while threads of gRPC run; its fork handlers are of no use to them.
# gRPC reads this once, at its first import.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
